"""The attackers' own process; see `bench.attacks`."""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from bench.attacks.attacks import RATES, Attackers, Victim


def main() -> None:
    """Attacks until stdin ends, then tells what became of it."""
    at, *names = sys.argv[1:]
    # The good clients share the core, and it is not their waiting for it that counts.
    os.nice(19)
    told = json.loads(at)
    chosen = tuple(attack for attack in RATES if attack.__name__ in names)
    attackers = Attackers(Victim(told["rest"], told["rpc"], "reader", "writer"), chosen)
    print("begun", flush=True)
    sys.stdin.read()
    attackers.close()
    print(json.dumps(attackers.became))
    sys.stdout.flush()
    os._exit(0)  # those that are held are held no more


if __name__ == "__main__":
    main()
