"""What may be wrong with a run, one module per topic: each function in LOOKS looks for one thing.

It takes a Situation and yields a Finding where it finds it. Whatever that says has to be so: figures come
from the events, a share too small to matter is passed over, and ``unless`` says when the advice is wrong.
"""
