"""The guard inside coding agents: one hook event in, one answer out, as the host expects them.

`hosts` is the table of what each host sends and takes, `payload` reads an event, `desk` asks the guard, and
`answers` says it in the host's words. `ledger` is what is kept between two hook processes; `service` answers
them all from one process, which the tiny entry `loopwarden_hook` starts when it is not there.
"""
