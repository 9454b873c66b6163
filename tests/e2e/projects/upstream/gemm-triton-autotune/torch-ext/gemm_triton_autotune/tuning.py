import json
from pathlib import Path

_CONFIGS = Path(__file__).parent / "configs"


def tuned(n, k, device_name):
    """The sizes of a block that were tuned for a shape on a device; the ones for any other where there are none."""
    file = _CONFIGS / f"N={n},K={k},device_name={device_name.replace(' ', '_')}.json"
    return json.loads(file.read_text()) if file.exists() else {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}
