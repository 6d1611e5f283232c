"""Which words does a word look at?  The four it looks at most, layer by layer, and a page that shows everything.

    python examples/look.py MODEL "The animal did not cross the street because it was too tired." it

MODEL is an encoder or a language model: a folder, a name in the box (encoder), or one on the hub.  Weights are means
over heads: they say where the model looked, not what its output rests on.  The page has accounts of that too.
"""

import sys

import regard

model, text, word = sys.argv[1:]
look = regard.look(model, text)
[attention] = look.header()["attentions"]
tokens = look.header()["sides"][attention["queries"]]["shown"]
if word not in tokens:
    sys.exit(f"the model reads no token {word!r}, but: {' '.join(tokens)}")

means = look.block(f"{attention['name']}/mean")  # (layers, queries, keys)
for number, weights in enumerate(means[:, tokens.index(word)], 1):
    most = weights.argsort()[::-1][:4]
    print(f"layer {number}: " + ", ".join(f"{tokens[key]} {weights[key]:.2f}" for key in most))

look.save("look.html")
print("look.html shows it all, in any browser")
