import Foundation
import TensorFlowLite

$words

/// Open it once and keep it, for one thread at a time.
final class Tagger {
$labels
$open

    /// Each word with its tag and the tag's probability.
    func tag(_ text: String) throws -> [(word: String, label: String, probability: Float)] {
        var found: [(word: String, label: String, probability: Float)] = []
        for (row, words) in try rowsOf(tokenizer, text) {
            let logits = try floats(ask("$signature", row), "logits")
            for (word, place) in words {
                let first = place * labels.count
                let odds = $activation(Array(logits[first..<first + labels.count]))
                let best = odds.indices.max { odds[$$0] < odds[$$1] } ?? 0
                found.append((word, labels[best], odds[best]))
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
