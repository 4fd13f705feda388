    private func softmax(_ logits: [Float]) -> [Float] {
        let highest = logits.max() ?? 0
        let odds = logits.map { exp($$0 - highest) }
        let sum = odds.reduce(0, +)
        return odds.map { $$0 / sum }
    }
