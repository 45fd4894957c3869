"""The fast CPU twin of prefill and step: whole forwards in compiled code, on packed weights.

pick_runner(bundle)                      the engine if it can run this model, else the network
pick_runner(bundle, weights="int8")      the same with weights of 8 bits
"""

from lookleft.engine.pick import pick_runner

__all__ = ["pick_runner"]
