#!/usr/bin/python3
"""mlxconfig as far as it is asked, over state.json beside it: three columns, a star where the next boot differs, and always the advice to reboot."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

WORDS = {"1": "IB(1)", "2": "ETH(2)"}
COLUMNS = "Default             Current         Next Boot"


def refuse(said: str) -> None:
    print(f"-E- {said}", file=sys.stderr)
    sys.exit(3)


def put(card: dict[str, Any], given: list[str]) -> None:
    if card.get("locked"):
        refuse("Failed to set: the device is in Secure Host mode")
    for one in given:
        name, value = one.split("=")
        if not card.get("deaf"):
            card["settings"][name][2] = WORDS.get(value, value) if name.startswith("LINK") else value
    print("Applying... Done!")


def tell(device: str, card: dict[str, Any], names: list[str]) -> None:
    print(f"\nDevice #1:\n----------\n\nDevice type:    ConnectX6\nDevice:         {device}\n")
    print(f"Configurations:                              {card.get('columns', COLUMNS)}")
    for name in names:
        default, current, coming = card["settings"][name]
        print(f"{'*' if current != coming else ' '}        {name:43} {default:19} {current:15} {coming}")
    print("The '*' shows parameters with next value different from default/current value.")


def main(arguments: list[str]) -> None:
    here = Path(__file__).resolve().parent
    state = json.loads((here / "state.json").read_text(encoding="utf-8"))
    with (here / "calls").open("a", encoding="utf-8") as calls:
        print(" ".join(arguments), file=calls)
    device, given = arguments[1], arguments[4:]
    card = state[device]
    names = [one.split("=")[0] for one in given]
    unknown = [name for name in names if name not in card["settings"]]
    if card.get("broken") or unknown:
        refuse(f"The Device doesn't support {unknown} parameter")
    if "set" in arguments:
        put(card, given)
        (here / "state.json").write_text(json.dumps(state), encoding="utf-8")
    else:
        tell(device, card, names)
    print("-I- Please reboot machine to load new configurations.")


if __name__ == "__main__":
    main(sys.argv[1:])
