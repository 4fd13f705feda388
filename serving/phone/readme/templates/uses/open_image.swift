    private let interpreter: Interpreter

    init(_ folder: URL) throws {
        func file(_ name: String) -> URL { folder.appendingPathComponent(name) }$sw_labels
        var options = Interpreter.Options()
        options.threadCount = 2
        interpreter = try Interpreter(modelPath: file("$model").path, options: options)
    }

    /// The signature, once it has read one image, of $shape numbers, row by row.
    private func ask(_ signature: String, _ pixels: Data) throws -> SignatureRunner {
        let runner = try interpreter.signatureRunner(with: signature)
        try runner.invoke(with: ["image": pixels])
        return runner
    }

    private func floats(_ runner: SignatureRunner, _ name: String) throws -> [Float] {
        try runner.output(named: name).data.withUnsafeBytes {
            Array($$0.bindMemory(to: Float.self))
        }
    }
