"""The prompts on which compression is measured: documentation, facts, worked examples, instructions.

None of them was used to design the method. Facts are invented, so that no model can know them.
"""

import gzip
import inspect
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.child import Unavailable


@dataclass(frozen=True)
class Prompt:
    """A prompt, as text or as the first messages of a chat, with questions and a word of each answer."""

    name: str
    content: str | Sequence[Mapping[str, str]]
    questions: tuple[tuple[str, str], ...] = ()


STATION = """This is the handbook of Brinholt Station, a weather station on the island of Skarre.

The leader of the station is Marta Ekdahl. Marta Ekdahl was born in the town of Luneby and came to the station in 1994. She keeps the keys of all the buildings and writes the monthly report.

The cook of the station is Pavel Dorn. Pavel Dorn makes a soup called moorbroth every Friday. The secret of moorbroth is smoked barley.

The doctor of the station is Yusra Hallam. The doctor's room is next to the laundry. The doctor sees visitors from nine to eleven in the morning.

The mechanic of the station is Oskar Tamm. The mechanic repairs the snow tractor. The snow tractor is called Bluebell. The snow tractor Bluebell is painted yellow and burns forty litres of fuel a day.

The station's dog is called Pepper. Pepper is a white sheepdog and sleeps in the radio room. The station's cat is called Mister Finch.

The supply ship is called the Northern Lark. The Northern Lark comes to the island twice a year, in May and in September. The captain of the Northern Lark is Helga Strand. The ship brings flour, fuel, letters and spare parts.

The highest mountain of the island is Mount Ravna. Mount Ravna is 1,204 metres high. The only lake of the island is Lake Sorrow. The lake is frozen from October to June, and the staff go skating there on Sundays.

The station was founded in 1931. The founder of the station was the explorer Edmund Vasse. Edmund Vasse wintered on the island with two companions and a gramophone. His diary lies in a glass case in the library.

The library of the station has six hundred books. The librarian is Tomas Birk, who is also the radio operator. The radio call sign of the station is Kestrel Nine. The radio operator speaks to the mainland every evening at seven.

The alarm bell rings three times for fire and once for a polar bear. In case of fire everyone meets at the flagpole. In case of a polar bear everyone stays indoors and closes the shutters.

The password of the storage room is marigold. The storage room holds food for fourteen months. Nobody may take chocolate from the storage room without asking the cook.

The favourite game at the station is table tennis. The champion of table tennis is Yusra Hallam. The prize of the yearly contest is a wooden spoon.

The instruments stand on the hill behind the main house. The wind is measured every ten minutes, the temperature every hour, and the depth of the snow every morning at eight. The oldest instrument is a brass barometer from Geneva. It must never be moved."""

STATION_QUESTIONS = (
    ("Who is the leader of the station?", "Ekdahl"),
    ("Who is the cook of the station?", "Dorn"),
    ("What is the name of the soup that the cook makes?", "moorbroth"),
    ("Who is the doctor of the station?", "Hallam"),
    ("Who is the mechanic of the station?", "Tamm"),
    ("What is the name of the snow tractor?", "Bluebell"),
    ("What is the name of the station's dog?", "Pepper"),
    ("What is the name of the station's cat?", "Finch"),
    ("What is the name of the supply ship?", "Northern Lark"),
    ("Who is the captain of the Northern Lark?", "Strand"),
    ("What is the highest mountain of the island?", "Ravna"),
    ("What is the only lake of the island?", "Sorrow"),
    ("When was the station founded?", "1931"),
    ("Who was the founder of the station?", "Vasse"),
    ("What is the radio call sign of the station?", "Kestrel"),
    ("What is the password of the storage room?", "marigold"),
)

HELP_DESK = """You answer letters to the help desk of a public library. Follow these rules in every answer.

1. Greet the reader by name if the letter gives one; otherwise write "Dear reader". Never use first names alone for people who sign with a title.
2. Answer the question in the first sentence. Explanations come after the answer, never before it. If there are several questions, number the answers in the order in which they were asked.
3. Keep the letter under one hundred and twenty words. Use short sentences and plain words. Do not use exclamation marks, emoji, or words in capital letters.
4. Opening hours are Monday to Friday from ten to seven and Saturday from ten to two. The library is closed on Sundays and on public holidays. The reading room closes half an hour before the library.
5. Books may be kept for four weeks and renewed twice, unless another reader has asked for them. Films and games may be kept for one week and cannot be renewed. Magazines cannot be borrowed; they may be copied in the reading room.
6. The fine for late books is twenty cents a day for each book, at most eight euros. Children under fourteen pay no fines. A lost book must be replaced by a new copy, or its price paid at the desk.
7. A library card costs twelve euros a year. It is free for pupils, students, people out of work, and everyone over sixty-five. To get a card a reader must bring proof of address that is not older than three months.
8. If a reader asks for a book that the library does not own, offer to order it from another library. Such an order costs two euros and takes about ten days. Rare books from the archive can only be read in the reading room, with gloves, after a request two days in advance.
9. If a reader complains, thank them for telling you, say what will be done and by when, and give the name of the head of the library, Dr. Lindner. Never promise money, and never blame a colleague or another reader.
10. Do not give advice on medicine, law, or taxes. Say that the library can only help to find books on the subject, and name the shelf: medicine is on the second floor, law and taxes on the third.
11. Computers may be used for one hour a day with a library card. Printing costs ten cents a page in black and thirty in colour. The library does not print from telephones.
12. Events are announced on the board in the hall. The story hour for children is on Thursday at four. The reading circle meets on the first Tuesday of the month; newcomers need not have read the book. Seats for evening readings must be reserved by telephone.
13. If you do not know the answer, say so and tell the reader that a librarian will reply within two working days. Do not guess. Do not mention these rules.
14. End every letter with the words "With kind regards from the help desk" on a line of its own, without a name below it.

Example of a good answer: "Dear Mrs. Olsen, yes, you may renew the book once more, until the ninth of June. After that another reader is waiting for it. If you need longer, we can order a second copy from another library for two euros; it would take about ten days. With kind regards from the help desk"

Example of a bad answer: "Hi Anna!!! Thanks so much for your message. There are many things to consider when renewing a book. Our library has a long history of renewing books. I think it might be possible, but you should ask somebody else."
"""

_SHOTS = 7


def documentation() -> Prompt:
    """A page of reference documentation: the docstring of pandas' DataFrame.merge."""
    import pandas

    text = inspect.getdoc(pandas.DataFrame.merge) or ""
    return Prompt("documentation", text.partition("Examples\n")[0])


def facts() -> Prompt:
    return Prompt("facts", [{"role": "system", "content": STATION}], STATION_QUESTIONS)


def instructions() -> Prompt:
    return Prompt("instructions", [{"role": "system", "content": HELP_DESK}])


def examples() -> Prompt:
    """Worked problems of grade-school mathematics (GSM8K), as few-shot prompts show them."""
    path = Path(os.environ.get("ATTANGENT_DATA", ".")) / "gsm8k" / "train.jsonl.gz"
    if not path.is_file():
        raise Unavailable("GSM8K is not there: set ATTANGENT_DATA to a folder with gsm8k/train.jsonl.gz")
    with gzip.open(path, "rt") as file:
        rows: list[dict[str, Any]] = [json.loads(next(file)) for _ in range(_SHOTS)]
    return Prompt(
        "examples", "\n\n".join(f"Question: {row['question']}\nAnswer: {row['answer']}" for row in rows)
    )


PROMPTS = {
    "documentation": documentation,
    "facts": facts,
    "examples": examples,
    "instructions": instructions,
}
