"""How fast rxwow is beside a plain loop and beside the best that is written by hand.

Run it with `python -m benchmarks --quick`. One sample is one fresh process (`python -m benchmarks.sample W1 rxwow`), so
a profiler can be put in front of it. The files, in reading order:

- `evidence`: sees to it that a run kept the order within a key, lost nothing and stayed within the bound;
- `workloads`: what is to be done, W1 to W10; `flights`: the real events of W4;
- `contestants`: who does it;
- `sample`: one contestant does one workload; `harness`: all of them, interleaved; `report`: the medians, `plots`: some
  of them drawn; `floors`: what they must reach.
"""
