"""Activations and priors of your own, one module each, named as what it registers.

``sigmoid.py`` with ``@register class Sigmoid(Activation): name = "sigmoid"`` makes ``sigmoid``
known to loss, flow, SGD, optimum, pruning and the command line: docs/add-an-activation.md.
"""
