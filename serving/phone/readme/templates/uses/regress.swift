import Foundation
import TensorFlowLite

/// Open it once and keep it, for one thread at a time.
final class Estimator {
$open

    func estimate($sw_arguments) throws -> Float {
        let row = $sw_row
        return try floats(ask("$signature", row), "score")[0]
    }
}

let model = try Estimator(Bundle.main.resourceURL!)
print(try model.estimate($sw_example))
