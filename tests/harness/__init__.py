"""The suite's own tools: shared stages, its report, parts, and choosing by a change."""
