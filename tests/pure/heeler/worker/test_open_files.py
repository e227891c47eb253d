import resource

from heeler.worker.open_files import raise_open_files_limit


def test_a_worker_raises_its_limit_of_open_files():
    soft, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft // 2, hard))
        raise_open_files_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(65_536, hard), hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
