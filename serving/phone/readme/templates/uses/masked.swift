import Foundation
import TensorFlowLite

/// Open it once and keep it, for one thread at a time.
final class LanguageModel {
$open

    /// For each [MASK] the likeliest pieces with their probabilities.
    func fill(_ text: String, best: Int = 5) throws -> [[(String, Float)]] {
        let row = try tokenizer.frame(tokenizer.encodeWithMasks(text), length: $length)
        let places = tokenizer.maskedPositions(row, count: $masks)  // filled up with 0
        let runner = try ask("fill_mask", row, ["masked_positions": places])
        let logits = try floats(runner, "logits")
        let masks = min($masks, row.tokenIds.filter { $$0 == tokenizer.mask }.count)
        var found: [[(String, Float)]] = []
        for mask in 0..<masks {
            let odds = softmax(Array(logits[mask * $width..<(mask + 1) * $width]))
            let ids = odds.indices.sorted { odds[$$0] > odds[$$1] }.prefix(best)
            found.append(
                try ids.map { id in
                    let text = try tokenizer.decode([id])
                    return (text.isEmpty ? tokenizer.pieces[id] : text, odds[id])
                })
        }
        return found
    }

    /// A vector: near texts have near ones.
    func embed(_ text: String) throws -> [Float] {
        let row = try tokenizer.frame(tokenizer.encode(text), length: $longest_vector)
        return try floats(ask("embed", row), "embedding")
    }

$probabilities
}

func cosine(_ one: [Float], _ other: [Float]) -> Float {
    func product(_ a: [Float], _ b: [Float]) -> Float { zip(a, b).map(*).reduce(0, +) }
    return product(one, other) / (product(one, one) * product(other, other)).squareRoot()
}

let model = try LanguageModel(Bundle.main.resourceURL!)
for (piece, probability) in try model.fill($sw_example).joined() {
    print(probability, piece)
}
print("cosine", cosine(try model.embed($sw_example), try model.embed("Another text.")))
