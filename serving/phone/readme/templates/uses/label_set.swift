import Foundation
import TensorFlowLite

/// Open it once and keep it, for one thread at a time.
final class Classifier {
$labels
    /// The least probability of each label that applies.
    private let thresholds: [Float] = [$thresholds]
$open

    /// The labels that apply with their probabilities, the best first.
    func classify($sw_arguments) throws -> [(label: String, probability: Float)] {
        let row = $sw_row
        let logits = try floats(ask("$signature", row), "logits")
        let found = zip(labels, $activation(logits)).map { (label: $$0, probability: $$1) }
        let applying = zip(found, thresholds).filter { $$0.0.probability >= $$0.1 }
        return applying.map { $$0.0 }.sorted { $$0.probability > $$1.probability }
    }

$probabilities
}

let model = try Classifier(Bundle.main.resourceURL!)
for (label, probability) in try model.classify($sw_example) {
    print(probability, label)
}
