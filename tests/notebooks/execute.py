"""Run a notebook and store it with its outputs: execute.py NOTEBOOK RESULT."""

import asyncio
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat as untyped_nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

nbformat: Any = untyped_nbformat

PATIENCE_S = 40


def this_interpreter(folder: Path) -> AsyncKernelManager:
    """The kernel that notebooks name is the interpreter that runs this, whatever kernels the machine has."""
    (folder / "python3").mkdir()
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    specification = {"argv": command, "display_name": "Python 3", "language": "python"}
    (folder / "python3" / "kernel.json").write_text(json.dumps(specification))
    specifications = KernelSpecManager(kernel_dirs=[str(folder)], ensure_native_kernel=False)
    return AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specifications)


def execute(source: Path, result: Path) -> None:
    notebook = nbformat.read(source, as_version=4)
    with TemporaryDirectory() as folder:
        kernel = this_interpreter(Path(folder))
        in_its_folder = {"metadata": {"path": str(source.parent)}}
        client = NotebookClient(notebook, km=kernel, timeout=PATIENCE_S, resources=in_its_folder)
        asyncio.run(client.async_execute())
    nbformat.write(notebook, result)


if __name__ == "__main__":
    execute(Path(sys.argv[1]), Path(sys.argv[2]))
