"""The JavaScript block of the clients' guide, as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("httpx2", reason="the extra client is not installed")

import loopwarden
from tests.gateway.processes import PATIENCE, GatewayProcess

NODE = shutil.which("node")
CLIENT = Path(loopwarden.__file__).parent / "gateway" / "client" / "loopwarden.mjs"


@pytest.mark.tree
@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_the_block_of_the_guide_runs(gateway: GatewayProcess, tmp_path: Path) -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "gateway-clients.md"
    (block,) = re.findall(
        r"^```javascript\n(.*?)^```", guide.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    script = block.replace("./loopwarden.mjs", CLIENT.as_uri()).replace(
        "http://127.0.0.1:8377", gateway.address
    )
    (tmp_path / "agent.mjs").write_text(script, encoding="utf-8")
    assert NODE is not None
    shown = subprocess.run(
        [NODE, tmp_path / "agent.mjs"],
        env={**os.environ, "LOOPWARDEN_TOKEN": gateway.token},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "nothing in notes.txt" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "ended: tool_loop_persisted"
