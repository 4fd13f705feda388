    private let labels: [String]
