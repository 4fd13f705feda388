import Foundation
import TensorFlowLite

/// Open it once and keep it, for one thread at a time.
final class Embedder {
$open

    /// A vector: near texts have near ones.
    func embed(_ text: String) throws -> [Float] {
        let row = try tokenizer.frame(tokenizer.encode(text), length: $length)
        return try floats(ask("embed", row), "embedding")
    }
}

func cosine(_ one: [Float], _ other: [Float]) -> Float {
    func product(_ a: [Float], _ b: [Float]) -> Float { zip(a, b).map(*).reduce(0, +) }
    return product(one, other) / (product(one, one) * product(other, other)).squareRoot()
}

let model = try Embedder(Bundle.main.resourceURL!)
print("cosine", cosine(try model.embed($sw_example), try model.embed("Another text.")))
