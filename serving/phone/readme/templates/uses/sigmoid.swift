    private func sigmoid(_ logits: [Float]) -> [Float] {
        logits.map { 1 / (1 + exp(-$$0)) }
    }
