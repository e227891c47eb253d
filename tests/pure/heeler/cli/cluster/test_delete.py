"""`heeler connectors delete`."""

from __future__ import annotations

from tests.rigs.cli_fake import run


def test_each_connector_is_deleted_although_one_cannot_be(fake):
    fake.answers["DELETE /connectors/a"] = (404, {"message": "Connector a not found"})
    fake.answers["DELETE /connectors/b"] = (204, None)
    done = run(fake, "connectors", "delete", "a", "b", "--yes", code=4)
    assert "a: HTTP 404: Connector a not found" in done.stderr
    assert [request for request, _ in fake.asked] == ["DELETE /connectors/a", "DELETE /connectors/b"]
    assert "b: deleted" in done.stdout
