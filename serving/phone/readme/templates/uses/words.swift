// What is a word: addresses, numbers, do|n't, letters, 's, and marks. What repeats groups
// (`++`, `*+`) takes nothing back: for that a long word would need a deep stack.
private let letter = #"[\p{L}\p{M}\p{N}_]"#
private let wordPattern =
    #"https?://\S*\#(letter)|\p{N}+(?:[.,:/]\p{N}+)++|\#(letter)+(?=n['’]t\b)|n['’]t\b"#
    + #"|\#(letter)+(?:[.@]\#(letter)+)*+|['’]\#(letter)+|([^\p{L}\p{M}\p{N}_\s])\1*"#

/// The rows of a text, and the words of each with the places they begin at.
private func rowsOf(
    _ tokenizer: Tokenizer, _ text: String
) throws -> [(row: Row, words: [(word: String, place: Int)])] {
    _ = try tokenizer.limited(text)
    let expression = try NSRegularExpression(pattern: wordPattern)
    let whole = NSRange(text.startIndex..., in: text)
    let words = expression.matches(in: text, range: whole).compactMap {
        Range($$0.range, in: text).map { String(text[$$0]) }
    }
    // Of a very long word the beginning is read. Its first piece has the answer.
    let pieces: [[Int]] = try words.enumerated().map { (number, word) throws -> [Int] in
        let text = number > 0 ? "$prefix" + word : word
        let ids = try tokenizer.encode(text).prefix($longest_word)
        return ids.isEmpty ? [tokenizer.unknown].compactMap { $$0 } : Array(ids)
    }
    var rows: [Int: [Int]] = [:]  // of a long text several, cut between words
    let fits = pieces.joined().count <= $room
    var end = 0
    for number in words.indices {
        end += pieces[number].count
        rows[fits ? 0 : (end - 1) / $step, default: []].append(number)
    }
    var found: [(row: Row, words: [(word: String, place: Int)])] = []
    for key in rows.keys.sorted() {
        let numbers = rows[key] ?? []
        let ids = numbers.flatMap { pieces[$$0] }
        var placed: [(word: String, place: Int)] = []
        var place = $first_place  // after the piece that begins the row, if there is one
        for number in numbers {
            placed.append((words[number], place))
            place += pieces[number].count
        }
        found.append((try tokenizer.frame(ids, length: $length), placed))
    }
    return found
}
