"""Tiny checkpoints as transformers writes them: names and shapes, and no library.

Written out by hand from transformers' own files, apart from our tables of names. The
numbers come from the names by integer arithmetic, the same on every machine.
"""

import json
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

Shapes = dict[str, tuple[int, ...]]

VOCABULARY, WIDTH, INNER, HEADS, PLACES = 11, 8, 12, 2, 10


@dataclass(frozen=True)
class Case:
    """One checkpoint: its `config.json`, and names and shapes of its tensors."""

    config: dict
    shapes: Shapes

    def tensors(self) -> dict[str, np.ndarray]:
        return {name: numbers(name, shape) for name, shape in self.shapes.items()}

    def write(self, folder: Path, **changed: object) -> Path:
        """Writes it with some keys of `config.json` changed."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**self.config, **changed})
        (folder / "config.json").write_text(text)
        save_file(self.tensors(), folder / "model.safetensors", {"format": "pt"})
        return folder


def numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers from -0.5 to 0.5, or 0.5 to 1.5 for the scale of a norm."""
    places = np.arange(1, 1 + int(np.prod(shape)), dtype=np.uint64)
    mixed = (places * np.uint64(2654435761) + zlib.crc32(name.encode())) % 2**32
    mixed = (mixed ^ (mixed >> np.uint64(15))) * np.uint64(2246822519) % 2**32
    uniform = (mixed / 2**32 - 0.5).astype("float32").reshape(shape)
    is_scale = "norm" in name.lower() or ".ln_" in name
    return uniform + 1 if is_scale and name.endswith(("weight", "gamma")) else uniform


def dense(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def norm(name: str) -> Shapes:
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def under(prefix: str, shapes: Shapes) -> Shapes:
    return {prefix + name: shape for name, shape in shapes.items()}


def bert_body(*, num_segments: int = 2, places: int = PLACES) -> Shapes:
    shapes = {
        "embeddings.word_embeddings.weight": (VOCABULARY, WIDTH),
        "embeddings.position_embeddings.weight": (places, WIDTH),
        "embeddings.token_type_embeddings.weight": (num_segments, WIDTH),
        **norm("embeddings.LayerNorm"),
    }
    for i in range(2):
        block = f"encoder.layer.{i}"
        for name in ("query", "key", "value"):
            shapes |= dense(f"{block}.attention.self.{name}", WIDTH, WIDTH)
        shapes |= dense(f"{block}.attention.output.dense", WIDTH, WIDTH)
        shapes |= norm(f"{block}.attention.output.LayerNorm")
        shapes |= dense(f"{block}.intermediate.dense", WIDTH, INNER)
        shapes |= dense(f"{block}.output.dense", INNER, WIDTH)
        shapes |= norm(f"{block}.output.LayerNorm")
    return shapes


POOLER = dense("pooler.dense", WIDTH, WIDTH)
BERT_MASKED = {
    "cls.predictions.bias": (VOCABULARY,),
    **dense("cls.predictions.transform.dense", WIDTH, WIDTH),
    **norm("cls.predictions.transform.LayerNorm"),
}
ROBERTA_MASKED = {
    "lm_head.bias": (VOCABULARY,),
    **dense("lm_head.dense", WIDTH, WIDTH),
    **norm("lm_head.layer_norm"),
}


def bert_config(architecture: str, **more: object) -> dict:
    return {
        "architectures": [architecture],
        "model_type": "bert",
        "attention_probs_dropout_prob": 0.1,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": WIDTH,
        "initializer_range": 0.02,
        "intermediate_size": INNER,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": PLACES,
        "num_attention_heads": HEADS,
        "num_hidden_layers": 2,
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "vocab_size": VOCABULARY,
        **more,
    }


def roberta_config(architecture: str, **more: object) -> dict:
    return bert_config(
        architecture,
        model_type="roberta",
        layer_norm_eps=1e-5,
        max_position_embeddings=PLACES + 2,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        type_vocab_size=1,
        **more,
    )


ROBERTA_BODY = bert_body(num_segments=1, places=PLACES + 2)
LABELS = {
    "id2label": {"0": "bad", "1": "so-so", "2": "good"},
    "label2id": {"bad": 0, "so-so": 1, "good": 2},
}
ONE_LABEL = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}


def distilbert_body() -> Shapes:
    shapes = {
        "embeddings.word_embeddings.weight": (VOCABULARY, WIDTH),
        "embeddings.position_embeddings.weight": (PLACES, WIDTH),
        **norm("embeddings.LayerNorm"),
    }
    for i in range(2):
        block = f"transformer.layer.{i}"
        for name in ("q_lin", "k_lin", "v_lin", "out_lin"):
            shapes |= dense(f"{block}.attention.{name}", WIDTH, WIDTH)
        shapes |= norm(f"{block}.sa_layer_norm")
        shapes |= dense(f"{block}.ffn.lin1", WIDTH, INNER)
        shapes |= dense(f"{block}.ffn.lin2", INNER, WIDTH)
        shapes |= norm(f"{block}.output_layer_norm")
    return shapes


def distilbert_config(architecture: str, **more: object) -> dict:
    return {
        "architectures": [architecture],
        "model_type": "distilbert",
        "activation": "gelu",
        "attention_dropout": 0.1,
        "dim": WIDTH,
        "dropout": 0.1,
        "hidden_dim": INNER,
        "initializer_range": 0.02,
        "max_position_embeddings": PLACES,
        "n_heads": HEADS,
        "n_layers": 2,
        "pad_token_id": 0,
        "sinusoidal_pos_embds": False,
        "vocab_size": VOCABULARY,
        **more,
    }


def gpt2_body() -> Shapes:
    shapes: Shapes = {
        "wte.weight": (VOCABULARY, WIDTH),
        "wpe.weight": (PLACES, WIDTH),
        **norm("ln_f"),
    }
    for i in range(2):
        block = f"h.{i}"
        for name, inputs, outputs in (
            ("attn.c_attn", WIDTH, 3 * WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", WIDTH, INNER),
            ("mlp.c_proj", INNER, WIDTH),
        ):
            shapes[f"{block}.{name}.weight"] = (inputs, outputs)  # not transposed
            shapes[f"{block}.{name}.bias"] = (outputs,)
        shapes |= norm(f"{block}.ln_1") | norm(f"{block}.ln_2")
    return shapes


GPT2_CONFIG = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "attn_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-5,
    "n_embd": WIDTH,
    "n_head": HEADS,
    "n_inner": INNER,
    "n_layer": 2,
    "n_positions": PLACES,
    "resid_pdrop": 0.1,
    "vocab_size": VOCABULARY,
}


def llama_body(
    *, heads: int, key_value_heads: int, head_dim: int, bias: bool
) -> Shapes:
    queries, keys = heads * head_dim, key_value_heads * head_dim
    shapes: Shapes = {
        "model.embed_tokens.weight": (VOCABULARY, WIDTH),
        "model.norm.weight": (WIDTH,),
    }
    for i in range(2):
        block = f"model.layers.{i}"
        for name, inputs, outputs in (
            ("self_attn.q_proj", WIDTH, queries),
            ("self_attn.k_proj", WIDTH, keys),
            ("self_attn.v_proj", WIDTH, keys),
            ("self_attn.o_proj", queries, WIDTH),
            ("mlp.gate_proj", WIDTH, INNER),
            ("mlp.up_proj", WIDTH, INNER),
            ("mlp.down_proj", INNER, WIDTH),
        ):
            both = dense(f"{block}.{name}", inputs, outputs)
            shapes |= both if bias else {f"{block}.{name}.weight": (outputs, inputs)}
        shapes[f"{block}.input_layernorm.weight"] = (WIDTH,)
        shapes[f"{block}.post_attention_layernorm.weight"] = (WIDTH,)
    return shapes


LLAMA_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 6,
    "hidden_act": "silu",
    "hidden_size": WIDTH,
    "initializer_range": 0.02,
    "intermediate_size": INNER,
    "max_position_embeddings": 64,
    "mlp_bias": False,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 100.0,
    "tie_word_embeddings": False,
    "vocab_size": VOCABULARY,
}
LLAMA_HEAD = {"lm_head.weight": (VOCABULARY, WIDTH)}
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 4.0,
    "beta_slow": 1.0,
}


def t5_body(*, gated: bool, head_dim: int) -> Shapes:
    shapes: Shapes = {"shared.weight": (VOCABULARY, WIDTH)}
    inner = ("wi_0", "wi_1") if gated else ("wi",)

    def attention(name: str) -> Shapes:
        across = HEADS * head_dim
        return {
            **{f"{name}.{n}.weight": (across, WIDTH) for n in "qkv"},
            f"{name}.o.weight": (WIDTH, across),
        }

    for stack in ("encoder", "decoder"):
        shapes[f"{stack}.final_layer_norm.weight"] = (WIDTH,)
        table = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        shapes[f"{stack}.{table}"] = (8, HEADS)
        for i in range(2):
            parts = ["SelfAttention", "DenseReluDense"]
            if stack == "decoder":
                parts.insert(1, "EncDecAttention")
            for number, part in enumerate(parts):
                layer = f"{stack}.block.{i}.layer.{number}"
                shapes[f"{layer}.layer_norm.weight"] = (WIDTH,)
                if part != "DenseReluDense":
                    shapes |= attention(f"{layer}.{part}")
                    continue
                for name in inner:
                    shapes[f"{layer}.{part}.{name}.weight"] = (INNER, WIDTH)
                shapes[f"{layer}.{part}.wo.weight"] = (WIDTH, INNER)
    return shapes


T5_CONFIG = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "is_encoder_decoder": True,
    "d_ff": INNER,
    "d_kv": 4,
    "d_model": WIDTH,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "feed_forward_proj": "relu",
    "layer_norm_epsilon": 1e-6,
    "num_decoder_layers": 2,
    "num_heads": HEADS,
    "num_layers": 2,
    "pad_token_id": 0,
    "relative_attention_max_distance": 16,
    "relative_attention_num_buckets": 8,
    "tie_word_embeddings": True,
    "vocab_size": VOCABULARY,
}


def vit_body() -> Shapes:
    shapes: Shapes = {
        "embeddings.cls_token": (1, 1, WIDTH),
        "embeddings.position_embeddings": (1, 10, WIDTH),
        "embeddings.patch_embeddings.projection.weight": (WIDTH, 3, 2, 2),
        "embeddings.patch_embeddings.projection.bias": (WIDTH,),
        **norm("layernorm"),
    }
    for i in range(2):
        block = f"encoder.layer.{i}"
        for name in ("query", "key", "value"):
            shapes |= dense(f"{block}.attention.attention.{name}", WIDTH, WIDTH)
        shapes |= dense(f"{block}.attention.output.dense", WIDTH, WIDTH)
        shapes |= dense(f"{block}.intermediate.dense", WIDTH, INNER)
        shapes |= dense(f"{block}.output.dense", INNER, WIDTH)
        shapes |= norm(f"{block}.layernorm_before") | norm(f"{block}.layernorm_after")
    return shapes


def vit_config(architecture: str, **more: object) -> dict:
    return {
        "architectures": [architecture],
        "model_type": "vit",
        "attention_probs_dropout_prob": 0.0,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "hidden_size": WIDTH,
        "image_size": 6,
        "initializer_range": 0.02,
        "intermediate_size": INNER,
        "layer_norm_eps": 1e-12,
        "num_attention_heads": HEADS,
        "num_channels": 3,
        "num_hidden_layers": 2,
        "patch_size": 2,
        "qkv_bias": True,
        **more,
    }


CASES = {
    "bert": Case(bert_config("BertModel"), {**bert_body(), **POOLER}),
    "bert_masked": Case(
        bert_config("BertForMaskedLM", hidden_act="gelu_new"),
        {**under("bert.", bert_body()), **BERT_MASKED},
    ),
    "bert_pairs": Case(
        bert_config("BertForPreTraining"),
        {
            **under("bert.", {**bert_body(), **POOLER}),
            **BERT_MASKED,
            **dense("cls.seq_relationship", WIDTH, 2),
        },
    ),
    "bert_classifier": Case(
        bert_config("BertForSequenceClassification", **LABELS),
        {**under("bert.", {**bert_body(), **POOLER}), **dense("classifier", WIDTH, 3)},
    ),
    "bert_tagger": Case(
        bert_config("BertForTokenClassification", **LABELS),
        {**under("bert.", bert_body()), **dense("classifier", WIDTH, 3)},
    ),
    "bert_reader": Case(
        bert_config("BertForQuestionAnswering"),
        {**under("bert.", bert_body()), **dense("qa_outputs", WIDTH, 2)},
    ),
    "roberta": Case(roberta_config("RobertaModel"), {**ROBERTA_BODY, **POOLER}),
    "roberta_masked": Case(
        roberta_config("RobertaForMaskedLM"),
        {**under("roberta.", ROBERTA_BODY), **ROBERTA_MASKED},
    ),
    "roberta_classifier": Case(
        roberta_config("RobertaForSequenceClassification", **LABELS),
        {
            **under("roberta.", ROBERTA_BODY),
            **dense("classifier.dense", WIDTH, WIDTH),
            **dense("classifier.out_proj", WIDTH, 3),
        },
    ),
    "distilbert": Case(distilbert_config("DistilBertModel"), distilbert_body()),
    "distilbert_masked": Case(
        distilbert_config("DistilBertForMaskedLM"),
        {
            **under("distilbert.", distilbert_body()),
            **dense("vocab_transform", WIDTH, WIDTH),
            **norm("vocab_layer_norm"),
            "vocab_projector.bias": (VOCABULARY,),
        },
    ),
    "distilbert_classifier": Case(
        distilbert_config("DistilBertForSequenceClassification", **LABELS),
        {
            **under("distilbert.", distilbert_body()),
            **dense("pre_classifier", WIDTH, WIDTH),
            **dense("classifier", WIDTH, 3),
        },
    ),
    "gpt2": Case(GPT2_CONFIG, under("transformer.", gpt2_body())),
    "gpt2_classifier": Case(
        {
            **GPT2_CONFIG,
            **LABELS,
            "architectures": ["GPT2ForSequenceClassification"],
            "pad_token_id": 0,
        },
        under("transformer.", gpt2_body()) | {"score.weight": (3, WIDTH)},
    ),
    "gpt2_estimator": Case(
        {
            **GPT2_CONFIG,
            **ONE_LABEL,
            "architectures": ["GPT2ForSequenceClassification"],
            "pad_token_id": 0,
        },
        under("transformer.", gpt2_body()) | {"score.weight": (1, WIDTH)},
    ),
    "gpt2_tagger": Case(
        {
            **GPT2_CONFIG,
            **LABELS,
            "architectures": ["GPT2ForTokenClassification"],
        },
        {**under("transformer.", gpt2_body()), **dense("classifier", WIDTH, 3)},
    ),
    "llama_classifier": Case(
        {
            **LLAMA_CONFIG,
            **LABELS,
            "architectures": ["LlamaForSequenceClassification"],
            "pad_token_id": 0,
            "problem_type": "multi_label_classification",
        },
        llama_body(heads=4, key_value_heads=2, head_dim=6, bias=False)
        | {"score.weight": (3, WIDTH)},
    ),
    "llama_tagger": Case(
        {
            **LLAMA_CONFIG,
            **LABELS,
            "architectures": ["LlamaForTokenClassification"],
        },
        llama_body(heads=4, key_value_heads=2, head_dim=6, bias=False)
        | dense("score", WIDTH, 3),
    ),
    "llama": Case(
        LLAMA_CONFIG,
        llama_body(heads=4, key_value_heads=2, head_dim=6, bias=False) | LLAMA_HEAD,
    ),
    "llama_tied_with_biases": Case(
        {
            **LLAMA_CONFIG,
            "attention_bias": True,
            "head_dim": 4,
            "mlp_bias": True,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
        },
        llama_body(heads=2, key_value_heads=2, head_dim=4, bias=True),
    ),
    "llama_linear": Case(
        {**LLAMA_CONFIG, "rope_scaling": {"rope_type": "linear", "factor": 2.5}},
        llama_body(heads=4, key_value_heads=2, head_dim=6, bias=False) | LLAMA_HEAD,
    ),
    "llama_yarn": Case(
        {**LLAMA_CONFIG, "rope_scaling": YARN},
        llama_body(heads=4, key_value_heads=2, head_dim=6, bias=False) | LLAMA_HEAD,
    ),
    "t5": Case(T5_CONFIG, t5_body(gated=False, head_dim=4)),
    "t5_1_1": Case(
        {
            **T5_CONFIG,
            "d_kv": 6,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
        },
        t5_body(gated=True, head_dim=6) | LLAMA_HEAD,
    ),
    "vit": Case(vit_config("ViTModel"), {**vit_body(), **POOLER}),
    "vit_classifier": Case(
        vit_config("ViTForImageClassification", **LABELS),
        {**under("vit.", vit_body()), **dense("classifier", WIDTH, 3)},
    ),
}
