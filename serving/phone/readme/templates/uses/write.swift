import Foundation
import TensorFlowLite

/// Open it once and keep it, for one thread at a time.
final class Writer {
    private let tokenizer: Tokenizer
    private let interpreter: Interpreter
    private var runners: [String: SignatureRunner] = [:]

    init(_ folder: URL) throws {
        func file(_ name: String) -> URL { folder.appendingPathComponent(name) }
        tokenizer = try Tokenizer(json: Data(contentsOf: file("phone_tokenizer.json")))
        var options = Interpreter.Options()
        options.threadCount = 2
        interpreter = try Interpreter(modelPath: file("$model").path, options: options)
        for name in interpreter.signatureKeys {
            runners[name] = try interpreter.signatureRunner(with: name)
        }
    }

    /// $what, by the likeliest piece each time, up to a string of `stop`.
    func write(
        $sw_arguments, most: Int = $most, stop: [String] = []
    ) throws -> String {
        guard stop.count <= 64, stop.allSatisfy({ $$0.utf8.count <= 1024 }) else {
            throw TokenizerError.badRequest(
                "stop: expected 64 strings of 1,024 bytes at most")
        }
        let decode = runners["decode"]!
        var kept: [String: Data] = [:]  // the cache goes in and comes out with each call
        for name in decode.inputs where name.hasPrefix("kv_cache") {
            kept[name] = Data(count: try decode.input(named: name).data.count)
        }
$sw_begin
        var written: [Int] = []
        var token = ids.last!
        let room = $slots + 1 - ids.count  // what the prompt leaves
        for place in ids.count - 1..<ids.count - 1 + max(0, min(most, room)) {
            let inputs = ["tokens": data([token], 1), "input_pos": data([place], 1)]
            kept = try run("decode", inputs, kept, source)
            let logits = try decode.output(named: "logits").data.withUnsafeBytes {
                Array($$0.bindMemory(to: Float.self))
            }
            token = logits.indices.max { logits[$$0] < logits[$$1] } ?? 0
            if tokenizer.ends.contains(token) { break }
            written.append(token)
            if stop.isEmpty { continue }
            let text = try added(ids, written)
            let ends = stop.compactMap { text.range(of: $$0, options: .literal)?.lowerBound }
            if let end = ends.min() { return String(text[..<end]) }
        }
        return try added(ids, written)
    }

    /// The text that has been written.
    private func added(_ ids: [Int], _ written: [Int]) throws -> String {
        let before = $sw_before
        let text = try tokenizer.decode(before + written).unicodeScalars
        return String(text.dropFirst(try tokenizer.decode(before).unicodeScalars.count))$sw_trim
    }

    private func run(
        _ name: String, _ inputs: [String: Data], _ kept: [String: Data],
        _ source: [String: Data] = [:]
    ) throws -> [String: Data] {
        let runner = runners[name]!
        try runner.invoke(with: inputs.merging(kept) { $$1 }.merging(source) { $$1 })
        var found: [String: Data] = [:]
        for name in runner.outputs where name != "logits" {
            found[name] = try runner.output(named: name).data
        }
        return found
    }

    private func data(_ ids: [Int], _ size: Int) -> Data {
        let filled = ids.map { Int32($$0) } + Array(repeating: 0, count: size - ids.count)
        return filled.withUnsafeBufferPointer { Data(buffer: $$0) }
    }
$sw_encode}

let model = try Writer(Bundle.main.resourceURL!)
print(try model.write($sw_example))
