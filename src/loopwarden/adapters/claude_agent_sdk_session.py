"""What is known of a session of the Claude Agent SDK: its runs, and who is at work in them."""

from __future__ import annotations

import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopwarden.events import Verdict
    from loopwarden.guard import Verbs


@dataclass(slots=True)
class Call:
    """A call of the present batch: what the guard said, and whether it has its outcome."""

    verdict: Verdict
    over: bool = False


@dataclass(slots=True, eq=False)
class Agent:
    """The main agent during one run, or a sub-agent.

    Attributes:
        turn: Id of the batch that is going on; `None` between two.
        calls: Calls of that batch.
        ended: The verdict that ends its run.
        stopped: The host was told to stop it.
    """

    run_id: str
    turn: str | None = None
    calls: dict[str, Call] = field(default_factory=dict)
    ended: Verdict | None = None
    stopped: bool = False


@dataclass(slots=True)
class Session:
    """What is known of a session.

    Attributes:
        prompt_id: The host's id of the newest prompt.
        main: The main agent; `None` between two runs.
        agents: Sub-agents at work, and those whose run was ended, by their id.
        run_ids: Runs that the guard still knows.
        compacted: A person had the history compacted: to be told to the next run.
        resumed: The host goes on with a call that it had put off; the prompt it then writes is no new run.
        over: The run is at its end, and nothing goes on in the background.
        aborted: Verdicts that ended runs of the main agent and were not raised yet.
    """

    verbs: Verbs
    prompt_id: str | None = None
    main: Agent | None = None
    agents: dict[str, Agent] = field(default_factory=dict)
    run_ids: set[str] = field(default_factory=set)
    compacted: bool = False
    resumed: bool = False
    over: bool = False
    aborted: deque[Verdict] = field(default_factory=lambda: deque(maxlen=16))

    def agent(self, event: Mapping[str, Any]) -> Agent:
        """Whose event it is."""
        agent_id = event.get("agent_id")
        if agent_id is None:
            return self.prompted(event.get("prompt_id"))
        self.run_ids.add(agent_id)
        return self.agents.setdefault(agent_id, Agent(agent_id))

    def prompted(self, prompt_id: str | None, *, goes_on: bool = False) -> Agent:
        """The main agent in the run of this prompt; a new prompt begins a run, unless it only `goes_on`."""
        self.over = False
        if prompt_id is None:
            self.resumed = True
        if self.main is not None:
            same = prompt_id is None or prompt_id == self.prompt_id
            if same or goes_on or self.resumed:
                self.resumed = self.resumed and prompt_id in {None, self.prompt_id}
                self.prompt_id = prompt_id if prompt_id is not None else self.prompt_id
                return self.main
            self.forget({self.main.run_id})
        self.prompt_id = prompt_id
        self.main = Agent(prompt_id if prompt_id is not None else uuid.uuid4().hex)
        self.run_ids.add(self.main.run_id)
        if self.compacted:
            self.compacted = False
            self.verbs.compacted(run_id=self.main.run_id)
        return self.main

    def stop(self, agent: Agent, verdict: Verdict) -> dict[str, Any]:
        """Tell the host to end the agent's run."""
        if not agent.stopped:
            agent.stopped = True
            if agent is self.main:
                self.aborted.append(verdict)
                self.over = not self.agents
        return {"continue_": False, "stopReason": verdict.message or "the run was ended"}

    def forget(self, run_ids: set[str]) -> None:
        """These runs are over."""
        for run_id in run_ids:
            self.verbs.forget(run_id=run_id)
        self.run_ids -= run_ids

    def leave(self) -> None:
        """All of its runs are over."""
        self.forget(set(self.run_ids))
        self.agents.clear()
        self.main = self.prompt_id = None
        self.over = False
