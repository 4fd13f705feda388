import Foundation
import TensorFlowLite

/// Open it once and keep it, for one thread at a time.
final class Classifier {
    private let labels: [String]
    private let runner: SignatureRunner

    init(_ folder: URL) throws {
        func file(_ name: String) -> URL { folder.appendingPathComponent(name) }$sw_labels
        var options = Interpreter.Options()
        options.threadCount = 2
        let interpreter = try Interpreter(modelPath: file("$model").path, options: options)
        runner = try interpreter.signatureRunner(with: "$signature")
    }

    /// The labels with their probabilities, of $shape numbers, row by row.
    func classify(_ pixels: Data) throws -> [(label: String, probability: Float)] {
        try runner.invoke(with: ["image": pixels])
        let logits = try runner.output(named: "logits").data.withUnsafeBytes {
            Array($$0.bindMemory(to: Float.self))
        }
        let found = zip(labels, $activation(logits)).map { (label: $$0, probability: $$1) }
        return found.sorted { $$0.probability > $$1.probability }
    }

$probabilities
}

let model = try Classifier(Bundle.main.resourceURL!)
let pixels = Data((0..<$pixels).map { UInt8($$0 % 251) })  // take a decoded image of yours
for (label, probability) in try model.classify(pixels) {
    print(probability, label)
}
