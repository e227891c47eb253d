from pathlib import Path

import pytest

from spark_tasks.plugins import discovery

GOOD = "from heeler import SinkConnector\n\nclass Good(SinkConnector):\n    pass\n"
METADATA = "Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n"


def bad_entry_points(folder):
    (folder / "odd-1.0.dist-info").mkdir()
    (folder / "odd-1.0.dist-info" / "METADATA").write_text(METADATA)
    (folder / "odd-1.0.dist-info" / "entry_points.txt").write_text("[heeler.connectors]\nno target\n")
    return f"the metadata of odd in {folder}: "


def bad_record(folder):
    (folder / "odd-1.0.dist-info").mkdir()
    (folder / "odd-1.0.dist-info" / "METADATA").write_text(METADATA)
    (folder / "odd-1.0.dist-info" / "RECORD").write_text("a.py,sha256=x,no size\n")
    return f"the metadata of odd in {folder}: invalid literal"


def bad_name(folder):
    (folder / "odd-1.0.dist-info").mkdir()
    (folder / "odd-1.0.dist-info" / "METADATA").write_bytes(b"Name: \xff\n")
    (folder / "odd-1.0.dist-info" / "RECORD").write_text("a.py,sha256=x,no size\n")
    return f"the metadata of a distribution in {folder}: "


def looping_metadata(folder):
    (folder / "odd-1.0.dist-info").mkdir()
    (folder / "odd-1.0.dist-info" / "METADATA").symlink_to("METADATA")
    return f"the metadata of a distribution in {folder}: [Errno 40] Too many levels"


def long_expression(folder):
    (folder / "a_generated.py").write_text(f"x = {'1+' * 100_000}1\n")
    return f"{folder}/a_generated.py: maximum recursion depth"


def many_signs(folder):
    (folder / "a_generated.py").write_text(f"x = {'-' * 100_000}1\n")
    return f"{folder}/a_generated.py: MemoryError"


@pytest.mark.parametrize("odd", [bad_entry_points, bad_record, bad_name, looping_metadata, long_expression, many_signs])
def test_what_cannot_be_read_is_reported_and_hides_no_other_plugin(tmp_path, odd):
    """The worker did not start."""
    complaint = f"plugin.path: could not read {odd(tmp_path)}"
    (tmp_path / "good.py").write_text(GOOD)
    complaints = []
    assert [found.name for found in discovery.in_folders([str(tmp_path)], complaints.append)] == ["good.Good"]
    assert [text[: len(complaint)] for text in complaints] == [complaint]


@pytest.mark.parametrize(("name", "denied"), [("lost+found", "iterdir"), ("package", "exists"), ("package", "is_dir")])
def test_folders_that_may_not_be_read_are_reported(tmp_path, monkeypatch, name, denied):
    (tmp_path / name).mkdir()
    (tmp_path / "good.py").write_text(GOOD)
    allowed = getattr(Path, denied)

    def guarded(path):
        if name in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return allowed(path)

    monkeypatch.setattr(Path, denied, guarded)
    complaints = []
    assert [found.name for found in discovery.in_folders([str(tmp_path)], complaints.append)] == ["good.Good"]
    [complaint] = complaints
    assert complaint.startswith(f"plugin.path: could not read {tmp_path}/{name}: [Errno 13] Permission denied")
