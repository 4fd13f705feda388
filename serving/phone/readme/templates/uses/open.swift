    private let tokenizer: Tokenizer
    private let interpreter: Interpreter

    init(_ folder: URL) throws {
        func file(_ name: String) -> URL { folder.appendingPathComponent(name) }
        tokenizer = try Tokenizer(json: Data(contentsOf: file("phone_tokenizer.json")))$sw_labels
        var options = Interpreter.Options()
        options.threadCount = 2
        interpreter = try Interpreter(modelPath: file("$model").path, options: options)
    }

    /// The signature, once it has said something of one text.
    private func ask(
        _ signature: String, _ row: Row, _ others: [String: [Int]] = [:]
    ) throws -> SignatureRunner {
        let size = $sw_size
        var inputs = others
$sw_inputs
        let runner = try interpreter.signatureRunner(with: signature)
        for (name, ids) in inputs {
            try runner.resizeInput(named: name, toShape: Tensor.Shape([1, ids.count]))
        }
        let numbers = inputs.mapValues { ids in
            ids.map { Int32($$0) }.withUnsafeBufferPointer { Data(buffer: $$0) }
        }
        try runner.invoke(with: numbers)
        return runner
    }

    private func floats(_ runner: SignatureRunner, _ name: String) throws -> [Float] {
        try runner.output(named: name).data.withUnsafeBytes {
            Array($$0.bindMemory(to: Float.self))
        }
    }
