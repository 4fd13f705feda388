import Foundation
import TensorFlowLite

/// Of a context; `none` speaks for there being no answer, `score` for this one.
struct Answer {
    let text: String
    let score: Float
    let none: Float
}

/// Open it once and keep it, for one thread at a time.
final class Reader {
$open

    func read(_ question: String, _ context: String) throws -> Answer {
        let asked = Array(try tokenizer.encode(question).prefix($longest_question))
        let words = try tokenizer.limited(context).split { $$0.isWhitespace }
        var pieces: [Int] = []  // of the context
        var places: [(word: Int, piece: Int)] = []  // the word of each, its number there
        for (number, word) in words.enumerated() {
            let ids = try tokenizer.encode((number > 0 ? "$prefix" : "") + word)
            pieces += ids
            places += ids.indices.map { (number, $$0) }
        }
        let room = $length - 3 - asked.count
        let before = asked.count + 2
        var (none, score) = (Float.infinity, Float(-1e30))
        var found: (first: Int, last: Int)?
        var start = 0
        repeat {  // of a long context several windows that overlap
            let window = Array(pieces.dropFirst(start).prefix(room))
            let row = try tokenizer.framePair(asked, window, length: $length)
            let runner = try ask("read_ids", row)
            let first = try floats(runner, "start_logits")
            let last = try floats(runner, "end_logits")
            none = min(none, first[0] + last[0])
            for size in 0..<min($longest_answer, window.count) {
                for i in before..<before + window.count - size
                where first[i] + last[i + size] > score {
                    score = first[i] + last[i + size]
                    found = (start + i - before, start + i - before + size)
                }
            }
            if start + room >= pieces.count { break }
            start += min($stride, room)
        } while true
        guard let span = found$sw_and_some else {
            return Answer(text: "", score: score, none: none)
        }
        let begin = try edges(words, places[span.first]).lowerBound
        let end = try edges(words, places[span.last]).upperBound
        let text = context[begin..<end]
        return Answer(text: String(text), score: score, none: none)
    }

    /// The characters of a piece of a word, or of those around that are its edges.
    private func edges(
        _ words: [Substring], _ place: (word: Int, piece: Int)
    ) throws -> Range<String.Index> {
        let word = words[place.word]
        let prefix = place.word > 0 ? "$prefix" : ""
        let ids = try tokenizer.encode(prefix + word)
        var known = [0: word.startIndex, ids.count: word.endIndex]
        // Of a very long word the beginning.
        for edge in word.unicodeScalars.indices.dropFirst().prefix(64) {
            let part = try tokenizer.encode(prefix + word[..<edge])
            if part.count > 0, part.count < ids.count, ids.starts(with: part) {
                known[part.count] = edge
            }
        }
        let begin = known.filter { $$0.key <= place.piece }.max { $$0.key < $$1.key }!
        let end = known.filter { $$0.key > place.piece }.min { $$0.key < $$1.key }!
        return begin.value..<end.value
    }
}

let model = try Reader(Bundle.main.resourceURL!)
let answer = try model.read($sw_example)
print(answer.score, answer.text)
print(answer.none, "no answer")
