"""The README for an app: its programs are run, and answer as Keras does.

Kotlin is compiled against the class that Android has. Its native library does not run
here, so a class of the same shape takes its place when the program is run.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.serving.phone.generative_models import PREFIX, T5, shared
from tests.serving.phone.kotlin_compiler import JVM, compile_kotlin, kotlin, run
from tests.serving.untrained import TINY, learned_for, untrained_of
from transbeam.configs.base.errors import ArtifactError, ConfigError
from transbeam.configs.loader.objective_requirements import frames_texts_for_decoder
from transbeam.configs.loader.yaml_config import load_run
from transbeam.configs.schema.model import PoolerConfig
from transbeam.configs.schema.objectives.supervised import (
    ClassificationConfig,
    DialogueConfig,
    MultiLabelClassificationConfig,
    PairClassificationConfig,
    PairRegressionConfig,
    RegressionConfig,
    SpanQAConfig,
    TokenClassificationConfig,
)
from transbeam.configs.schema.tokenizer import ByteBPEConfig, WordPieceConfig
from transbeam.pipeline.tokenizers.base.text_frame import frame_of_run
from transbeam.serving.base.applied_calibration import AppliedCalibration
from transbeam.serving.base.trained_run import TOKENIZER
from transbeam.serving.phone.conversion.tflite_converter import write_tflite
from transbeam.serving.phone.readme.readme_writer import write_handover
from transbeam.serving.phone.tokenizer.tokenizer_files import write_tokenizer
from transbeam.serving.signatures.generation.sampling_params import (
    DEFAULTS,
    SPECS,
    STOP,
)
from transbeam.serving.signatures.task_factory import make_signature_task

HERE = Path(__file__).parents[1] / "kotlin"
ASKING = ("classify", "estimate", "fill", "tag", "read", "write", "embed")
ALONE = """
import runpy, sys
runpy.run_path("use.py")
strangers = {"tensorflow", "keras", "serving", "configs"} & set(sys.modules)
assert not strangers, strangers
"""
LONG = "It is a tuple of the names, and of 10:30 don't. " * 3


def tiny(name, **changes):
    """Of one block: programs do not look into a model."""
    config = load_run(TINY / f"{name}.yaml", with_model=True)
    model = replace(config.model, num_layers=1)
    export = replace(
        config.export, tflite=("float32",), examples=changes.pop("examples", ())
    )
    if name == "classifier_small":  # one vocabulary is enough
        config = replace(config, tokenizer=WordPieceConfig(vocabulary_size=1024))
    return replace(config, **{"model": model, "export": export, **changes})


def segmented(objective, **changes):
    config = tiny("classifier_small")
    model = replace(config.model, num_segments=2)
    return tiny("classifier_small", objective=objective, model=model, **changes)


def tagging():
    objective = TokenClassificationConfig(labels=("O", "B-PER", "I-PER"))
    model = replace(tiny("classifier_small").model, pooler=None)
    tokenizer = ByteBPEConfig(vocabulary_size=300, specials="roberta")
    return tiny(
        "classifier_small",
        objective=objective,
        model=model,
        tokenizer=tokenizer,
        examples=(LONG,),
    )


def on_decoder(config, **model):
    """The same task on a decoder, whose texts have no begin token."""
    model = replace(
        tiny("causal").model,
        max_sequence_length=config.model.max_sequence_length,
        **model,
    )
    tokenizer = ByteBPEConfig(vocabulary_size=300)
    return replace(config, model=model, tokenizer=tokenizer)


def embedding():
    """A body below a head that is new; its vectors are of the first tokens."""
    config = tiny("masked", examples=())
    export = replace(config.export, embedding_length=7, embedding_pooling="first")
    return replace(config, export=export)


def answering():
    config = tiny("masked")
    asked = f"{LONG}\twhat is a tuple of names"
    return replace(
        config,
        objective=SpanQAConfig(stride=7, max_question_length=5),
        model=replace(config.model, num_segments=2),
        evaluation=replace(config.evaluation, max_answer_length=4),
        export=replace(config.export, examples=(asked,)),
    )


def short(name, *examples):
    """A model that writes little, and reads in pieces of which the last is not full."""
    config = tiny(name, examples=examples)
    export = replace(config.export, tflite_cache=16, tflite_prefill=(3, 7))
    return replace(config, export=export)


PAIR = ('the "name" of $a list\tthe \\name of a tuple',)
CASES = {
    "classification": lambda: tiny(
        "classifier_small", objective=ClassificationConfig(labels=("a", "b and c"))
    ),
    "multi_label_classification": lambda: tiny(
        "classifier_small",
        objective=MultiLabelClassificationConfig(labels=("a", "b and c")),
    ),
    "pair_classification": lambda: segmented(
        PairClassificationConfig(labels=("a", "b and c")), examples=PAIR
    ),
    "sentence_pairs": lambda: tiny("sentence_pairs"),
    "regression": lambda: tiny("classifier_small", objective=RegressionConfig()),
    "pair_regression": lambda: segmented(PairRegressionConfig(), examples=PAIR),
    "masked": lambda: tiny("masked", examples=("the [MASK] of a [MASK] .",)),
    "embed": embedding,
    "contrastive_pairs": lambda: tiny("contrastive_pairs", examples=(LONG,)),
    "token_classification": tagging,
    "decoder_pairs": lambda: on_decoder(
        segmented(PairClassificationConfig(labels=("a", "b and c")), examples=PAIR),
        pooler=PoolerConfig(kind="end_token"),
    ),
    "decoder_tags": lambda: on_decoder(tagging()),
    "decoder_labels": lambda: on_decoder(
        CASES["multi_label_classification"](), pooler=PoolerConfig(kind="end_token")
    ),
    "decoder_vectors": lambda: on_decoder(
        tiny("contrastive_pairs", examples=(LONG,)),
        pooler=PoolerConfig(kind="end_token"),
    ),
    "span_qa": answering,
    "image_classification": lambda: tiny("vit_base"),
    "causal": lambda: short("causal", "It is a tuple of the names"),
    "text_to_text": lambda: short("text_to_text"),
    "completion": lambda: short("completion", "a list"),
    "dialogue": lambda: replace(
        short("completion", "a list"), objective=DialogueConfig(chat_template="plain")
    ),
}
# Of files that others need, too; they read in pieces of 4 and 7 and have 20 slots.
WRITERS = {
    "prefix": (PREFIX, "It is a tuple"),
    "span_corruption": (T5, "the <extra_id_0> of a <extra_id_1>"),
}


# Of the files of another, with a threshold.
DECIDED = {"no_answer": "span_qa"}
# In the quick ones is each template of a program, a pair, and both ways to begin.
SLOW = (
    *("pair_classification", "sentence_pairs", "regression", "decoder_pairs"),
    *("decoder_labels", "decoder_vectors"),
    *("causal", "prefix", "text_to_text", "completion", "dialogue"),
)
NAMES = [
    pytest.param(name, marks=[pytest.mark.thorough] if name in SLOW else [])
    for name in (*CASES, *WRITERS, *DECIDED)
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("phone")


@pytest.fixture(scope="module")
def handed_over(root):
    """By name: what was exported, and the folder; each made once."""
    made = {}

    def make(name):
        if name not in made:
            folder = root / name
            if name in DECIDED:
                made[name] = decided(*make(DECIDED[name]), folder)
                return made[name]
            writing = name in WRITERS
            trained, tokenizer = (taken if writing else converted)(name, folder)
            if frames_texts_for_decoder(trained.config):
                frame = frame_of_run(trained.config, trained.tokenizer.special)
                write_tokenizer(tokenizer, folder, frame)
            elif name != "image_classification":
                for file in for_phones(tokenizer, root).iterdir():
                    shutil.copy(file, folder)
            write_handover(trained, folder)
            made[name] = trained, folder
        return made[name]

    return make


def converted(name, folder):
    """Writes the files of a case: its model, and the folder of its tokenizer."""
    config, root = CASES[name](), folder.parent
    trained, run = untrained_of(config, root), root / f"{name}-run"
    trained = replace(trained, has_head=name != "embed")
    if isinstance(config.objective, MultiLabelClassificationConfig):
        # A model is too sure of neither label for this.
        fitted = AppliedCalibration(thresholds={"a": 0.999, "b and c": 0.001})
        trained = replace(trained, calibration=fitted)
    tokenizer = learned_for(config, root)
    shutil.copytree(tokenizer, run / TOKENIZER)
    write_tflite(trained, run, folder)
    return trained, tokenizer


def decided(trained, made, folder):
    """The same files, whose programs find that a question has no answer."""
    fitted = AppliedCalibration(no_answer_threshold=-1e6)
    trained = replace(trained, calibration=fitted)
    shutil.copytree(made, folder)
    write_handover(trained, folder)
    return trained, folder


def taken(name, folder):
    """The same of one whose files are there."""
    which, example = WRITERS[name]
    trained, files = shared(**which)
    export = replace(trained.config.export, examples=(example,))
    trained = replace(trained, config=replace(trained.config, export=export))
    folder.mkdir()
    shutil.copy(files["float32"], folder)
    return trained, files["float32"].parents[1] / "tflite-run" / TOKENIZER


@cache
def for_phones(tokenizer, root):
    """The tokenizer's files for phones, made once: golden ids take time."""
    folder = root / f"for-phones-{len(list(root.glob('for-phones-*')))}"
    folder.mkdir()
    write_tokenizer(tokenizer, folder)
    return folder


def program(folder, language):
    """The only program in the README that prints answers."""
    text = (folder / "README.md").read_text("utf-8")
    found = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    (longest,) = [each for each in found if "$model" not in each and "print" in each]
    return longest


def texts_of(folder):
    """The texts of the program: its first call outside of functions."""
    for statement in ast.parse(program(folder, "python")).body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ASKING:
                return [argument.value for argument in node.args]
    raise AssertionError("the program asks nothing")


tasks = {}


def task_for(trained):
    """One for each model: it keeps the graph that writes, which takes long to trace."""
    return tasks.setdefault(id(trained), make_signature_task(trained))


def expected(trained, folder):
    """Keras's answer as pairs of a number and what it is of."""
    task, kind = task_for(trained), trained.config.objective.kind
    if kind == "image_classification":
        inputs = task.inputs
        shape = inputs.size, inputs.size, inputs.channels
        image = (np.arange(np.prod(shape)) % 251).astype(np.uint8).reshape(shape)
        odds = tf.nn.softmax(inputs.ask(tf.constant(image[None]))["logits"])[0]
        return best_first(zip(odds.numpy(), task.answer.labels, strict=True))
    texts = [tf.constant([text]) for text in texts_of(folder)]
    if kind in ("regression", "pair_regression"):
        return [(float(task.answer_inputs(*texts)["score"][0]), "")]
    if kind in ("masked", "contrastive_pairs"):
        one, other = (
            task.embedder.embed(text)["embedding"].numpy()[0]
            for text in (*texts, tf.constant(["Another text."]))
        )
        cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        if not trained.has_head or kind == "contrastive_pairs":
            return [(cosine, "cosine")]
        found = task.fill_masks(*texts)
        scores, fills = (found[n].numpy()[0].ravel() for n in ("scores", "fills"))
        named = [fill.decode() for fill in fills]
        return [*zip(scores, named, strict=True), (cosine, "cosine")]
    if kind == "token_classification":
        found = {name: of.numpy()[0] for name, of in task.answer_texts(*texts).items()}
        columns = (found[name] for name in ("scores", "tags", "words"))
        return [
            (s, f"{t.decode()} {w.decode()}") for s, t, w in zip(*columns, strict=True)
        ]
    if kind == "span_qa":
        found = {name: of.numpy()[0] for name, of in task.answer(*texts).items()}
        return [
            (found["score"], found["answer"].decode()),
            (found["no_answer_score"], "no answer"),
        ]
    if "generate" in task.endpoints():
        (text,) = texts_of(folder)
        if text not in written.get(id(trained), {}):
            long = (TOO_LONG,) if kind == "span_corruption" else ()
            write(trained, task, (text, "", " ", *long), default_most(folder))
        return written[id(trained)][text]
    found = {name: of.numpy()[0] for name, of in task.answer_inputs(*texts).items()}
    named = [label.decode() for label in found["classes"]]
    odds = zip(found["scores"], named, strict=True)
    if kind == "multi_label_classification":
        assert b"b and c" in found["labels"]
        assert b"a" not in found["labels"]
        odds = [each for each in odds if each[1].encode() in found["labels"]]
    return best_first(odds)


# By model: texts, and how Keras goes on.
written = {}


def write(trained, task, texts, most):
    """All texts at once: for each width of a text Keras would trace a graph anew."""
    number = len(texts)
    wishes = {**DEFAULTS, "max_new_tokens": most}
    columns = [
        tf.constant([wishes[spec.name]] * number, spec.dtype) for spec in (*SPECS, STOP)
    ]
    found = task.endpoints()["generate"].function(tf.constant(texts), *columns)
    answers = [answer.decode() for answer in found["generated_text"].numpy()]
    written[id(trained)] = dict(zip(texts, answers, strict=True))


known = {}


def expected_once(trained, folder):
    """Programs in two languages ask the same; writing takes Keras seconds."""
    if folder not in known:
        known[folder] = expected(trained, folder)
    return known[folder]


def best_first(pairs):
    return sorted(pairs, key=lambda pair: -pair[0])


def default_most(folder):
    return int(re.search(r"most: int = (\d+)", program(folder, "python"))[1])


def check(trained, folder, printed):
    answer = expected_once(trained, folder)
    if isinstance(answer, str):
        assert printed == f"{answer}\n"
        return
    lines = printed.split("\n")[:-1]
    assert len(lines) == len(answer)
    for line, (number, name) in zip(lines, answer, strict=True):
        if name == "cosine":
            line = " ".join(line.split()[::-1])
        found, _, what = line.partition(" ")
        assert what == name
        assert float(found) == pytest.approx(float(number), rel=1e-6, abs=2e-4)


def python_prints(folder, *more):
    """Output of the program in Python, with lines appended."""
    lines = [program(folder, "python"), *more]
    (folder / "use.py").write_text("\n".join(lines), "utf-8")
    environment = {n: of for n, of in os.environ.items() if n != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, "-c", ALONE],
        cwd=folder,
        env=environment | {"PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", NAMES)
def test_the_python_program_answers_as_keras_does(handed_over, name):
    trained, folder = handed_over(name)
    # What separates an answer from its prompt is no part of it.
    is_answer = name in ("completion", "dialogue")
    assert ('.removeprefix(" ")' in program(folder, "python")) == is_answer
    check(trained, folder, python_prints(folder))


@pytest.fixture
def asking(handed_over, tmp_path):
    """The same model and folder, whose programs ask about another text."""

    def asking(name, text):
        trained, made = handed_over(name)
        folder = shutil.copytree(made, tmp_path / "phone")
        readme = (folder / "README.md").read_text("utf-8")
        for own in texts_of(folder):
            quoted = own.replace("\\", r"\\").replace('"', r"\"")
            readme = readme.replace(f'"{quoted}"', f'"{text}"')
        (folder / "README.md").write_text(readme, "utf-8")
        assert {*texts_of(folder)} == {text}
        return trained, folder

    return asking


TOO_LONG = "[MASK] <extra_id_0> " + 40 * LONG
READING = (
    "classification",
    "pair_regression",
    "masked",
    "token_classification",
    "span_qa",
    "span_corruption",
)


def each_in_turns():
    """Each name and each text: quick is one of each name, of both texts in turns."""
    for number, name in enumerate(READING):
        quick = ("", TOO_LONG)[number % 2]
        for text in ("", " ", TOO_LONG):
            marks = () if text == quick else pytest.mark.thorough
            yield pytest.param(name, text, marks=marks, id=f"{name}-{len(text)}")


@pytest.mark.parametrize(("name", "text"), list(each_in_turns()))
def test_a_text_of_nothing_and_one_that_is_too_long(asking, name, text):
    trained, folder = asking(name, text)
    check(trained, folder, python_prints(folder))


@pytest.mark.parametrize(
    "name", ["prefix", pytest.param("causal", marks=pytest.mark.thorough)]
)
def test_a_beginning_of_nothing_and_one_that_is_too_long(asking, name):
    trained, folder = asking(name, "")
    # And more is wanted than the cache has room for, or nothing.
    wanted = (1, 5, 1000, 0, -1)
    calls = [f"write({text!r}, most={n})" for text in ("", LONG) for n in wanted]
    printed = python_prints(folder, *(f"print('=', {call})" for call in calls))
    first, *others = re.split("^= ", printed, flags=re.MULTILINE)
    check(trained, folder, first)
    assert len(others) == len(calls)
    assert others[2].startswith(others[1].rstrip("\n"))
    assert others[7]  # after the last token of the text as many as there is room for
    assert others[3:5] + others[8:] == ["\n"] * 4


# What is written ends before the first of some strings, which have limits.
PYTHON_STOPS = """
whole, stop = write("a list"), write("a list")[3:6]
assert write("a list", stop=[whole[4:], "", stop]) == whole[: whole.index(stop)]
assert write("a list", stop=64 * ["é" * 512]) == whole
for wrong in (65 * ["a"], ["é" * 512 + "a"]):
    try:
        write("a list", stop=wrong)
    except ValueError as error:
        print(error)
"""
KOTLIN_STOPS = """
fun more(read: (String) -> ByteArray) = Writer(read).use { model ->
    val whole = model.write("a list")
    val stop = whole.substring(3, 6)
    check(stop in model.write("a list", stop = listOf("")))
    val ended = model.write("a list", stop = listOf(whole.drop(4), "", stop))
    check(ended == whole.take(whole.indexOf(stop)))
    check(model.write("a list", most = -1) == "")
    check(model.write("a list", stop = List(64) { "é".repeat(512) }) == whole)
    for (wrong in listOf(List(65) { "a" }, listOf("é".repeat(512) + "a"))) {
        val found = runCatching { model.write("a list", stop = wrong) }
        println(found.exceptionOrNull()?.message)
    }
}
"""
# A word in which groups repeat is read without a deep stack, one by one no text beyond.
KOTLIN_LONG = """
fun more(read: (String) -> ByteArray) = Tagger(read).use { model ->
    println(model.tag("a.".repeat(99_999)).size)
    println(model.tag("1.".repeat(99_999)).size)
    println(runCatching { model.tag("a ".repeat(100_001)) }.exceptionOrNull()?.message)
}
"""
KOTLIN_MORE = {"span_corruption": KOTLIN_STOPS, "token_classification": KOTLIN_LONG}
REFUSED_STOPS = 2 * "stop: expected 64 strings of 1,024 bytes at most\n"
REFUSED_TEXT = "a text of 200002 bytes: expected 200000 at most\n"


def test_what_is_written_ends_before_strings(handed_over):
    _, folder = handed_over("span_corruption")
    assert python_prints(folder, PYTHON_STOPS).endswith(REFUSED_STOPS)


@pytest.mark.parametrize(
    ("name", "function"), [("token_classification", "tag"), ("span_qa", "read")]
)
def test_a_text_beyond_the_longest_is_refused_at_once(handed_over, name, function):
    _, folder = handed_over(name)
    texts = "'a', " * (name == "span_qa") + "'a ' * 100_001"
    lines = ["try:", f"    {function}({texts})", "except ValueError as e: print(e)"]
    assert python_prints(folder, *lines).endswith(REFUSED_TEXT)


@pytest.fixture(scope="module")
def kotlin_answers(handed_over, root, request):
    """Output of the Kotlin programs for the requested cases."""
    asked = {
        item.callspec.params["name"]
        for item in request.session.items
        if "kotlin_answers" in getattr(item, "fixturenames", ())
    }
    made, work = kotlin(), root / "kotlin"
    work.mkdir()
    sources, calls = [work / "Main.kt"], []
    for name in asked:
        _, folder = handed_over(name)
        file = work / f"{name}.kt"
        text = program(folder, "kotlin") + KOTLIN_MORE.get(name, "")
        file.write_text(f"package uses.{name}\n\n{text}", "utf-8")
        sources.append(file)
        read = f'{{ java.io.File("{folder}", it).readBytes() }}'
        calls.append(f'    println("= {name}")\n    uses.{name}.show {read}')
        if name in KOTLIN_MORE:
            calls.append(f'    println("= more_{name}")\n    uses.{name}.more {read}')
    body = "\n".join(calls)
    (work / "Main.kt").write_text(f"package uses\n\nfun main() {{\n{body}\n}}\n")
    classes, ours = work / "classes", f"{made.tokenizer}:{made.path}"
    compile_kotlin(sources, classes, f"{ours}:{made.real}")
    bridge = f"-Dbridge={sys.executable}\n{HERE / 'bridge.py'}"
    paths = f"{made.interpreter}:{classes}:{ours}:{made.api}"
    encodings = [f"-D{n}.encoding=UTF-8" for n in ("file", "stdout")]
    printed = run([*JVM, *encodings, bridge, "-cp", paths, "uses.MainKt"])
    parts = re.split(r"^= (\w+)\n", printed, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_the_kotlin_program_answers_as_keras_does(handed_over, kotlin_answers, name):
    check(*handed_over(name), kotlin_answers[name])


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("span_corruption", REFUSED_STOPS),
        ("token_classification", f"2\n2\n{REFUSED_TEXT}"),
    ],
)
def test_the_kotlin_program_has_limits(kotlin_answers, name, printed):
    assert kotlin_answers[f"more_{name}"] == printed


@pytest.fixture(scope="module")
def swift(tmp_path_factory):
    """The compiler, and what a program of the README imports; skips without one."""
    compiler = shutil.which("swiftc")
    if compiler is None:
        pytest.skip("no swiftc, with which Swift is compiled")
    module = tmp_path_factory.mktemp("swift") / "TensorFlowLite.swiftmodule"
    api = HERE.with_name("swift") / "TensorFlowLite.swift"
    options = ["-emit-module", "-module-name", "TensorFlowLite", "-parse-as-library"]
    run([compiler, *options, "-o", str(module), str(api)])
    return [compiler, "-typecheck", "-warnings-as-errors", "-I", str(module.parent)]


@pytest.mark.parametrize("name", NAMES)
def test_the_swift_program_compiles(handed_over, swift, name, tmp_path):
    _, folder = handed_over(name)
    file = tmp_path / "main.swift"
    file.write_text(program(folder, "swift"), "utf-8")
    sources = [file]
    if name != "image_classification":
        sources.append(folder / "Tokenizer.swift")
    run([*swift, *map(str, sources)])


def test_the_readme_tells_what_lies_in_the_folder(handed_over, tmp_path):
    trained, made = handed_over("masked")
    folder = shutil.copytree(made, tmp_path / "phone")
    plain = (folder / "README.md").read_text("utf-8")
    assert "MediaPipe" not in plain
    assert "phone_report" not in plain
    assert "| `embed` | `token_ids` int32 (1, T)<br>`padding_mask`" in plain
    assert "`embedding` float32 (1, 64) |" in plain
    names = ("mediapipe_float32.tflite", "phone_report.md", "phone_report.png")
    for name in names:
        (folder / name).touch()
    shutil.copy(folder / "model_float32.tflite", folder / "model_dynamic_int8.tflite")
    write_handover(trained, folder)
    text = (folder / "README.md").read_text("utf-8")
    assert "TextEmbedder" in text
    assert "sends\nGoogle metrics" in text
    assert "[phone_report.md](phone_report.md)" in text
    assert 'Interpreter("model_dynamic_int8.tflite"' in text
    for file in folder.iterdir():
        if file.name not in ("README.md", "vocab.txt", "use.py", "__pycache__"):
            assert f"`{file.name}`" in text, file.name
    assert not re.search(r"\$\{?[a-z]+_|[ \t]\n", text)


def test_labels_are_lines(handed_over, tmp_path):
    trained, made = handed_over("classification")
    assert (made / "labels.txt").read_text("utf-8") == "a\nb and c\n"
    for label in ("a\nb", "a\u2028", "\r"):
        objective = replace(trained.config.objective, labels=("a", label))
        config = replace(trained.config, objective=objective)
        with pytest.raises(ConfigError, match="has a line break"):
            write_handover(replace(trained, config=config), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_model_or_with_a_damaged_one_is_refused(
    handed_over, tmp_path
):
    trained, _ = handed_over("classification")
    with pytest.raises(ArtifactError, match=r"no model_float32\.tflite nor another"):
        write_handover(trained, tmp_path)
    (tmp_path / "model_float32.tflite").write_bytes(b"damaged")
    with pytest.raises(ArtifactError, match="Remove it, then export it again"):
        write_handover(trained, tmp_path)
