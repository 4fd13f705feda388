"""Asks MediaPipe Tasks about texts; for an interpreter that has the package.

Reads JSON from standard input: `file`, `client` (`TextClassifier`, `TextEmbedder`) and
`texts`. Writes JSON: for each text its scores by label, or its vector.
"""

import json
import sys


def main():
    from mediapipe.tasks.python import text
    from mediapipe.tasks.python.core.base_options import BaseOptions

    asked = json.load(sys.stdin)
    name = asked["client"]
    options = getattr(text, f"{name}Options")(
        base_options=BaseOptions(model_asset_path=asked["file"])
    )
    with getattr(text, name).create_from_options(options) as client:
        if name == "TextClassifier":
            answers = [
                {of.category_name: of.score for of in head.categories}
                for words in asked["texts"]
                for head in client.classify(words).classifications
            ]
        else:
            answers = [
                head.embedding.tolist()
                for words in asked["texts"]
                for head in client.embed(words).embeddings
            ]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
