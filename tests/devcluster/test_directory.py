"""The directory of a cluster: who may use it, what stays in it, and what it tells others."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hack import yamls
from hack.devcluster.errors import DeadlineError, DevClusterError
from hack.devcluster.layout import USERS, Layout, Ports, free_ports, write_private
from hack.devcluster.process import tail
from hack.devcluster.state import Ownership, State, is_owned
from hack.devcluster.waiting import LONGEST_PAUSE_S, PAUSE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]


def state(directory: Path) -> State:
    return State(
        pid=os.getpid(),
        url="https://127.0.0.1:6443",
        kubeconfig=str(directory / "kubeconfig"),
        directory=str(directory),
        started="2026-01-01T00:00:00+00:00",
        components={"etcd": 1},
        ready=True,
    )


class TestOwnership:
    def test_a_directory_has_one_owner(self, tmp_path: Path) -> None:
        owner = Ownership(tmp_path)
        with pytest.raises(DevClusterError, match="a cluster is running in"):
            Ownership(tmp_path)
        owner.release()
        Ownership(tmp_path).release()

    def test_others_can_see_whether_there_is_an_owner(self, tmp_path: Path) -> None:
        assert not is_owned(tmp_path / "new")
        assert not (tmp_path / "new").exists(), "asking changes nothing"
        owner = Ownership(tmp_path / "new")
        assert is_owned(tmp_path / "new")
        owner.release()
        assert not is_owned(tmp_path / "new")

    def test_a_dead_owner_owns_nothing(self, tmp_path: Path) -> None:
        script = (
            "import os, sys; from pathlib import Path; from hack.devcluster.state import Ownership;"
            "owner = Ownership(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
        )
        subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=False)
        assert (tmp_path / "owner.lock").exists()
        assert not is_owned(tmp_path)

    def test_a_folder_with_something_else_in_it_is_never_taken(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("years of work")
        with pytest.raises(DevClusterError, match="is not empty and holds no cluster"):
            Ownership(tmp_path)
        assert (tmp_path / "thesis.txt").exists()

    def test_the_directory_goes_at_the_end(self, tmp_path: Path) -> None:
        directory = tmp_path / "cluster"
        owner = Ownership(directory)
        (directory / "data").mkdir()
        owner.end(keep=False)
        assert not directory.exists()

    def test_a_kept_directory_stays_and_is_used_again(self, tmp_path: Path) -> None:
        owner = Ownership(tmp_path)
        (tmp_path / "data").write_text("kept")
        state(tmp_path).write()
        owner.end(keep=True)
        assert State.read(tmp_path) is None
        again = Ownership(tmp_path)
        again.clear_leftovers()
        assert (tmp_path / "data").read_text() == "kept"
        again.release()

    def test_what_a_killed_owner_left_is_removed_before_the_next_start(self, tmp_path: Path) -> None:
        Ownership(tmp_path).release()
        (tmp_path / "etcd").mkdir()
        (tmp_path / "etcd" / "member").write_text("old")
        (tmp_path / "tokens.csv").write_text("old")
        owner = Ownership(tmp_path)
        owner.clear_leftovers()
        assert [path.name for path in tmp_path.iterdir()] == ["owner.lock"]
        assert is_owned(tmp_path)
        owner.release()


class TestState:
    def test_what_is_written_can_be_read(self, tmp_path: Path) -> None:
        state(tmp_path).write()
        assert State.read(tmp_path) == state(tmp_path)

    @pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"pid": 1}', '{"unknown": 1}'])
    def test_an_unreadable_state_is_none(self, tmp_path: Path, content: str) -> None:
        (tmp_path / "state.json").write_text(content)
        assert State.read(tmp_path) is None

    def test_it_holds_no_secret(self, tmp_path: Path) -> None:
        tokens = Layout(tmp_path).create()
        state(tmp_path).write()
        assert not any(token in (tmp_path / "state.json").read_text() for token in tokens.values())


class TestLayout:
    def test_credentials_are_for_their_owner_only(self, tmp_path: Path) -> None:
        layout = Layout(tmp_path / "cluster")
        layout.write_kubeconfigs("https://127.0.0.1:1", layout.create())
        assert stat.S_IMODE(layout.directory.stat().st_mode) == 0o700
        for file in (layout.token_file, layout.kubeconfig(), layout.kubeconfig("kwok")):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_tokens_survive_a_restart(self, tmp_path: Path) -> None:
        layout = Layout(tmp_path)
        assert layout.create() == layout.create()

    def test_every_user_has_a_token_of_its_own(self, tmp_path: Path) -> None:
        tokens = Layout(tmp_path).create()
        assert set(tokens) == set(USERS)
        assert len(set(tokens.values())) == len(USERS)

    def test_groups_are_quoted_as_the_api_server_reads_them(self, tmp_path: Path) -> None:
        layout = Layout(tmp_path)
        tokens = layout.create()
        assert f'{tokens["admin"]},admin,admin,"system:masters"' in layout.token_file.read_text()

    def test_a_kubeconfig_has_all_that_a_client_needs(self, tmp_path: Path) -> None:
        layout = Layout(tmp_path)
        tokens = layout.create()
        layout.write_kubeconfigs("https://127.0.0.1:1", tokens)
        config = yamls.load(layout.kubeconfig().read_text())
        assert config["clusters"][0]["cluster"] == {
            "server": "https://127.0.0.1:1",
            "certificate-authority": str(layout.ca_file),
        }
        assert config["users"][0]["user"] == {"token": tokens["admin"]}
        assert config["current-context"] == config["contexts"][0]["name"]

    def test_a_replaced_file_is_never_half_written(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        write_private(file, "one")
        with file.open() as reader:
            write_private(file, json.dumps({"two": 2}))
            assert reader.read() == "one"
        assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_ports_are_all_different() -> None:
    assert len(set(free_ports(50))) == 50
    ports = Ports.choose()
    assert len({getattr(ports, name) for name in Ports.__dataclass_fields__}) == len(
        Ports.__dataclass_fields__
    )


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log) == ""
    log.write_text("".join(f"{number}\n" for number in range(100)))
    assert tail(log, 3) == "97\n98\n99"


class TestWaiting:
    def test_the_answer_is_returned(self) -> None:
        answers = iter([None, 0, 7])
        assert wait_until(lambda: next(answers), "seven", 10, pause=lambda _s: None) == 7

    def test_the_deadline_names_what_was_waited_for(self) -> None:
        now = [0.0]

        def pause(seconds: float) -> None:
            now[0] += seconds

        with pytest.raises(DeadlineError, match=r"waited 2\.5 s in vain for the sun"):
            wait_until(lambda: False, "the sun", 2.5, clock=lambda: now[0], pause=pause)
        assert 2.5 < now[0] < 2.6

    def test_the_longer_it_lasts_the_less_often_is_asked(self) -> None:
        now, pauses = [0.0], [0.0]

        def pause(seconds: float) -> None:
            now[0] += seconds
            pauses.append(seconds)

        wait_until(lambda: now[0] > 10, "ten", 60, clock=lambda: now[0], pause=pause)
        assert pauses[1:] == sorted(pauses[1:])
        assert pauses[1] == PAUSE_S
        assert pauses[-1] == LONGEST_PAUSE_S

    def test_what_takes_long_to_find_out_is_asked_for_a_quarter_of_the_time(self) -> None:
        now, asked = [0.0], [0.0]

        def slow() -> bool:
            now[0] += 0.2
            asked[0] += 0.2
            return now[0] > 5

        def pause(seconds: float) -> None:
            now[0] += seconds

        wait_until(slow, "the slow one", 60, clock=lambda: now[0], pause=pause)
        assert asked[0] < 0.3 * now[0]

    def test_an_error_ends_the_wait(self) -> None:
        def fail() -> bool:
            raise RuntimeError("broken")

        with pytest.raises(RuntimeError, match="broken"):
            wait_until(fail, "nothing", 10)
