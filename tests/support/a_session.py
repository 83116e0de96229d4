"""A session of nsyswrap as its file has it, without any nsys."""

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

from nsyswrap.base.nsys.options import RecordingOptions
from nsyswrap.record.session import Session


def a_session(folder: Path, program: int, **given: Any) -> Session:
    made = Session(
        folder=os.path.realpath(folder),
        cwd="/",
        host=socket.gethostname(),
        pid=program,
        began=0,
        program=program,
        command=["serve"],
        label="serve",
        nsys="true",
        version="1",
        name="n",
        temporary="/",
        token="0" * 32,
        started=1.0,
        options=RecordingOptions(),
    )
    return replace(made, **given)
