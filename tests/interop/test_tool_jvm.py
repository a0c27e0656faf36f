"""Java tools that run one after another in one JVM behave as if each tool had its own JVM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import java, waiting
from tests.brokers import CHECKOUT
from tests.tool_jvm import HOST, ToolJvm

pytestmark = pytest.mark.interop
JAVAC = "com.sun.tools.javac.Main"
"""A tool that calls System.exit. Its exit code after wrong usage is 2."""


class Trials:
    """Runs ``Trial.java`` in a shared JVM. Starts a new JVM if the old one can run no more
    tools."""

    def __init__(self, folder: Path) -> None:
        # 4.4 moved Kafka's class Exit, which has the same methods in both packages.
        package = "utils.internals" if java.RELEASE == "4.4.0" else "utils"
        source = folder / "Trial.java"
        text = HOST.with_name("Trial.java").read_text()
        source.write_text(f"import org.apache.kafka.common.{package}.Exit;\n{text}")
        self._command = java.source(java.KAFKA_NEW, HOST)
        classes = self._command.index("-cp") + 1
        javac = [JAVAC, "-cp", self._command[classes], "-d", str(folder), str(source)]
        self._command[classes] += f":{folder}"
        self.jvm = ToolJvm(self._command)
        compiled = self.jvm.run(*javac, text_in="", timeout_s=60)
        assert compiled.returncode == 0, compiled.stderr

    def __call__(
        self, *arguments: str, text_in: str = "", timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        if not self.jvm.usable:
            self.jvm = ToolJvm(self._command)
        return self.jvm.run("Trial", *arguments, text_in=text_in, timeout_s=timeout_s)


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    made = Trials(tmp_path_factory.mktemp("trial"))
    yield made
    if made.jvm.usable:
        made.jvm.kill()


def test_each_tool_run_has_its_own_exit_code_and_output(trials: Trials) -> None:
    trials()
    pid = trials.jvm.pid
    first = trials("out=one", "err=two", "exit=3")
    second = trials("out=three", "halt=255")
    third = trials("out=ä€")
    assert (first.returncode, first.stdout, first.stderr) == (3, "one\n", "two\n")
    assert (second.returncode, second.stdout, second.stderr) == (255, "three\n", "")
    assert (third.returncode, third.stdout, third.stderr) == (0, "ä€\n", "")
    assert trials.jvm.usable
    assert trials.jvm.pid == pid


def test_tool_run_reads_only_the_standard_input_of_this_run(trials: Trials) -> None:
    large = "0123456789\n" * 20_000
    assert trials("echo", text_in=large).stdout == large
    assert trials("echo").stdout == ""


def test_tool_that_calls_exit_twice_has_the_exit_code_of_its_first_call(
    trials: Trials,
) -> None:
    done = trials("exit-twice")
    assert (done.returncode, done.stdout) == (5, "")
    assert trials.jvm.usable


def test_tool_that_raises_an_uncaught_exception_has_exit_code_1_and_a_stack_trace(
    trials: Trials,
) -> None:
    done = trials("throw=no reason")
    assert done.returncode == 1
    assert 'Exception in thread "main" java.lang.IllegalStateException: no reason' in done.stderr
    assert "at Trial.main" in done.stderr


def test_tool_run_waits_for_non_daemon_threads(trials: Trials) -> None:
    assert trials("thread=late").stdout == "late\n"


def test_shutdown_hooks_of_a_tool_are_executed_when_the_tool_ends(trials: Trials) -> None:
    assert trials("hook=last", "out=first", "exit=0").stdout == "first\nlast\n"
    assert trials("out=alone").stdout == "alone\n"


def test_each_tool_run_has_its_own_system_properties(trials: Trials) -> None:
    assert trials("set=mine", "get").stdout == "mine\n"
    assert trials("get").stdout == "null\n"


def test_jvm_is_replaced_when_a_thread_of_a_finished_tool_still_runs(trials: Trials) -> None:
    done = trials("stay", "out=done", "exit=6")
    assert (done.returncode, done.stdout) == (6, "done\n")
    assert not trials.jvm.usable
    assert not runs(trials.jvm.pid)


def test_output_and_exit_code_of_a_tool_that_ends_the_jvm_are_returned(trials: Trials) -> None:
    done = trials("out=before", "err=too", "real-exit=4")
    assert (done.returncode, done.stdout, done.stderr) == (4, "before\n", "too\n")
    assert not trials.jvm.usable
    assert trials("out=anew").stdout == "anew\n"


def test_tool_that_hangs_is_killed_with_its_jvm_at_the_timeout(trials: Trials) -> None:
    trials()
    with pytest.raises(subprocess.TimeoutExpired, match=r"Trial.* timed out after 0\.3 seconds"):
        trials("hang", timeout_s=0.3)
    assert not trials.jvm.usable
    assert not runs(trials.jvm.pid)


def test_next_run_has_a_new_jvm_when_a_tool_ended_the_previous_jvm() -> None:
    wrong = java.run(java.KAFKA_NEW, JAVAC, "-no-such-option")
    right = java.run(java.KAFKA_NEW, "org.apache.kafka.tools.TopicCommand", "--version")
    assert wrong.returncode == 2
    assert "no-such-option" in wrong.stderr
    assert right.stdout.split() == [java.RELEASE]


def test_jvm_ends_with_the_process_that_started_it() -> None:
    program = (
        "import os, signal\n"
        "from tests import java\n"
        "from tests.tool_jvm import HOST, ToolJvm\n"
        "jvm = ToolJvm(java.source(java.KAFKA_NEW, HOST))\n"
        "print(jvm.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    pid = int(ended.stdout)
    waiting.until("the JVM has ended", lambda: not runs(pid), 60)


def runs(pid: int) -> bool:
    """Returns True if the process runs. A zombie process does not count."""
    with suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False
