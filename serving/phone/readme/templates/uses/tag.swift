import Foundation
import TensorFlowLite

// What is a word: addresses, numbers, do|n't, letters, 's, and marks. What repeats groups
// (`++`, `*+`) takes nothing back: for that a long word would need a deep stack.
private let letter = #"[\p{L}\p{M}\p{N}_]"#
private let wordPattern =
    #"https?://\S*\#(letter)|\p{N}+(?:[.,:/]\p{N}+)++|\#(letter)+(?=n['’]t\b)|n['’]t\b"#
    + #"|\#(letter)+(?:[.@]\#(letter)+)*+|['’]\#(letter)+|([^\p{L}\p{M}\p{N}_\s])\1*"#

/// Open it once and keep it, for one thread at a time.
final class Tagger {
    private let labels: [String]
$open

    /// Each word with its tag and the tag's probability.
    func tag(_ text: String) throws -> [(word: String, label: String, probability: Float)] {
        _ = try tokenizer.limited(text)
        let expression = try NSRegularExpression(pattern: wordPattern)
        let whole = NSRange(text.startIndex..., in: text)
        let words = expression.matches(in: text, range: whole).compactMap {
            Range($$0.range, in: text).map { String(text[$$0]) }
        }
        // Of a very long word the beginning is read. Its first piece says the tag.
        let pieces: [[Int]] = try words.enumerated().map { (number, word) throws -> [Int] in
            let text = number > 0 ? "$prefix" + word : word
            let ids = try tokenizer.encode(text).prefix($longest_word)
            return ids.isEmpty ? [tokenizer.unknown].compactMap { $$0 } : Array(ids)
        }
        var rows: [Int: [Int]] = [:]  // of a long text several, cut between words
        let fits = pieces.joined().count <= $length - 2
        var end = 0
        for number in words.indices {
            end += pieces[number].count
            rows[fits ? 0 : (end - 1) / $step, default: []].append(number)
        }
        var found: [(word: String, label: String, probability: Float)] = []
        for key in rows.keys.sorted() {
            let numbers = rows[key] ?? []
            let row = try tokenizer.frame(numbers.flatMap { pieces[$$0] }, length: $length)
            let logits = try floats(ask("tag_ids", row), "logits")
            var place = 1  // after the piece that begins the row
            for number in numbers {
                let first = place * labels.count
                let odds = softmax(Array(logits[first..<first + labels.count]))
                let best = odds.indices.max { odds[$$0] < odds[$$1] } ?? 0
                found.append((words[number], labels[best], odds[best]))
                place += pieces[number].count
            }
        }
        return found
    }

$probabilities
}

let model = try Tagger(Bundle.main.resourceURL!)
for (word, label, probability) in try model.tag($sw_example) {
    print(probability, label, word)
}
