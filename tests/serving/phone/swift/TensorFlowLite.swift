import Foundation

// What the pod TensorFlowLiteSwift 2.17 offers, as far as the README's programs call it: a
// module to compile them against where there is no iOS. It runs nothing.

public struct Tensor {
    public struct Shape {
        public init(_ dimensions: [Int]) {}
    }
    public let data: Data
}

public final class Interpreter {
    public struct Options {
        public var threadCount: Int? = nil
        public init() {}
    }
    public var signatureKeys: [String] { [] }
    public init(modelPath: String, options: Options? = nil) throws {}
    public func signatureRunner(with key: String) throws -> SignatureRunner { fatalError() }
}

public final class SignatureRunner {
    public var inputs: [String] { [] }
    public var outputs: [String] { [] }
    public func input(named name: String) throws -> Tensor { fatalError() }
    public func output(named name: String) throws -> Tensor { fatalError() }
    public func resizeInput(named name: String, toShape shape: Tensor.Shape) throws {}
    public func allocateTensors() throws {}
    public func invoke(with inputs: [String: Data]) throws {}
}
