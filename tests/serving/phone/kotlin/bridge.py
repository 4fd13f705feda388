"""Answers for `Interpreter.kt`, a question and an answer a line."""

import json
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter


def main(model: str, threads: str) -> None:
    interpreter = Interpreter(model, num_threads=int(threads))
    run = {
        n: interpreter.get_signature_runner(n) for n in interpreter.get_signature_list()
    }
    details = {name: runner.get_input_details() for name, runner in run.items()}
    sizes = {
        key: {
            name: int(np.prod(of["shape"])) * np.dtype(of["dtype"]).itemsize
            for name, of in inputs.items()
        }
        for key, inputs in details.items()
    }
    print(json.dumps(sizes), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        key = asked["signature"]
        inputs = {}
        for name, value in asked["inputs"].items():
            of = details[key][name]
            array = np.array(value, of["dtype"])
            if array.ndim != len(of["shape"]):  # a buffer has no shape of its own
                array = array.reshape(of["shape"])
            inputs[name] = array
        answers = run[key](**inputs)
        told = {name: answers[name].tolist() for name in asked["outputs"]}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
