"""Every paper has a notebook, which is kept without outputs and runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from inhaul import lab

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_every_paper_has_a_notebook() -> None:
    papers = {experiment.paper for experiment in lab.experiments()} - {"beyond"}
    assert len(papers) == 5 and papers == {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells and all(not cell.outputs and cell.execution_count is None for cell in cells)
    text = "\n".join(cell.source for cell in notebook.cells)
    assert f'lab.load("{path.stem}/' in text and "does not come out" in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_of_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    kinds = {kind for cell in cells for output in cell.outputs for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= kinds, "it shows a frame and a plot"
