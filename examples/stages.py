"""When was each group of examples learned? From a log of losses.

`read_metrics("metrics.csv")` reads your own: a CSV, a trainer_state.json or a folder of TensorBoard events.
"""

import numpy as np
import pandas as pd

from attangent.stages import find_stages

steps, draw = np.arange(0, 1000, 5), np.random.default_rng(0)
learned = {"easy": 200, "hard": 650}
readings = pd.concat(
    pd.DataFrame(
        {
            "group": name,
            "step": steps,
            "loss": 0.5 + 1 / (1 + np.exp((steps - middle) / 25)) + 0.03 * draw.normal(size=len(steps)),
        }
    )
    for name, middle in learned.items()
)
print(find_stages(readings).summary())
