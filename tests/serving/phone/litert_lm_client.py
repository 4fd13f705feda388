"""Asks LiteRT-LM, in an interpreter of its own that has `litert-lm-api`.

    python litert_lm_client.py model.litertlm < questions.json

The questions are a list of objects with `prompt`; what is to be written on also has
`max_new_tokens`, and `written`, ids. The answers say how the client reads the prompt,
what it writes, in a session and as the answer to a message, and how it reads what was
`written`.
"""

import json
import sys

GREEDY = {"top_k": 1, "top_p": 1.0, "temperature": 1.0, "seed": 0}


def main(bundle: str) -> None:
    import litert_lm
    from litert_lm.interfaces import Backend

    litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
    with litert_lm.Engine(bundle, backend=Backend.CPU()) as engine:
        answers = [answer(engine, question) for question in json.load(sys.stdin)]
    json.dump(answers, sys.stdout)


def answer(engine, question):
    from litert_lm.interfaces import SamplerConfig

    prompt = question["prompt"]
    read = {"token_ids": engine.tokenize(prompt)}
    if "written" not in question:
        return read
    options = {
        "sampler_config": SamplerConfig(**GREEDY),
        "max_output_tokens": question["max_new_tokens"],
    }
    with engine.create_session(apply_prompt_template=False, **options) as session:
        session.run_prefill([prompt])
        parts = [part.texts for part in session.run_decode_async()]
    with engine.create_conversation(**options) as conversation:
        message = conversation.send_message(prompt)
    return {
        **read,
        "text": "".join(text for texts in parts for text in texts[:1]),
        "message": message,
        "written": engine.detokenize(question["written"]),
    }


if __name__ == "__main__":
    main(sys.argv[1])
