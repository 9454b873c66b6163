"""Signs and judges statements for the driver, in an environment with `cryptography`: JSON comes in and goes out."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rules_torch_kernels.policies import PolicyError, read_policy
from rules_torch_kernels.rebuilders import Wanted, judge, statements_below
from rules_torch_kernels.statements import StatementError, make_statement, sign, signer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _signer(request: Mapping[str, Any]) -> Any:  # noqa: ANN401  (JSON)
    return {"fingerprint": signer(Path(request["key"]).read_bytes())}


def _sign(request: Mapping[str, Any]) -> Any:  # noqa: ANN401  (JSON)
    key, now = Path(request["key"]).read_bytes(), datetime.now(UTC)
    builder = signer(key)
    payloads = [make_statement(**statement, builder=builder, time=now) for statement in request["statements"]]
    return {"bundles": [sign(key, payload).decode() for payload in payloads]}


def _judge(request: Mapping[str, Any]) -> Any:  # noqa: ANN401  (JSON)
    policy = read_policy(Path(request["policy"]))
    places = {**{str(path): path for path in policy.statements}, **request["statements"]}
    verdicts = []
    for variant in request["wanted"]:
        wanted = Wanted(**variant)
        bundles = dict[str, bytes]()
        for name, directory in places.items():
            bundles |= statements_below(Path(directory), wanted.variant, name)
        verdicts.append(judge(policy, wanted, bundles)._asdict())
    return {"verdicts": verdicts, "require": policy.require}


_CALLS: dict[str, Callable[[Mapping[str, Any]], Any]] = {"signer": _signer, "sign": _sign, "judge": _judge}


def main() -> None:
    """Answer one request; `problem` is what is wrong with a key or the policy."""
    request = json.load(sys.stdin)
    try:
        answer = _CALLS[request["call"]](request)
    except (OSError, PolicyError) as wrong:
        answer = {"problem": str(wrong)}
    except StatementError as wrong:
        answer = {"problem": f"{request['key']} {wrong}"}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
