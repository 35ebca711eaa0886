"""Questions made of single English sentences, and the words that answer them."""

import pytest

from attangent.compression.matching import DENIAL
from attangent.compression.rules import sentence_facts


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    [
        ("The mayor of Quillan is Beatrix Sorley.", "Who is the mayor of Quillan?", "Beatrix|Sorley"),
        ("The river is called the Tamsin.", "What is the river called?", "Tamsin"),
        ("A full membership costs 18 euros a month.", "How much does a full membership cost?", "18"),
        ("The deposit is 50 euros.", "How much is the deposit?", "50"),
        ("The bridge was built in 1786 of stone.", "When was the bridge built?", "1786"),
        ("The kitchen is in the basement.", "Where is the kitchen?", "basement"),
        ("The tour is on Saturdays.", "When is the tour?", "Saturdays"),
        ("The choir is led by Ann Lee on Mondays.", "Who leads the choir?", "Ann|Lee"),
        ("The club has 340 members.", "How many members does the club have?", "340"),
        ("The ferry sails on Tuesdays.", "When does the ferry sail?", "Tuesdays"),
        ("The crossing takes two hours.", "How long does the crossing take?", "two"),
        ("The filter is cleaned every six months.", "How often is the filter cleaned?", "six"),
        ("The books may be kept for four weeks.", "For how long may the books be kept?", "four"),
        ("The unit weighs 96 kilograms.", "How many kilograms does the unit weigh?", "96"),
        ("A member may have twelve items.", "How many items may a member have?", "twelve"),
        ("If the login fails, the router locks itself.", "What happens if the login fails?", "router|locks"),
        ("They refuse a claim if the form is lost.", "What happens if the form is lost?", "refuse|claim"),
        ("Staff must not smoke in the yard.", "May staff smoke in the yard?", DENIAL),
        ("The fund is not paid during this time.", "Is the fund paid during this time?", DENIAL),
        ("Never open the red valve.", "May I open the red valve?", DENIAL),
        (
            "Alcohol is allowed on Fridays, unless clients are present.",
            "What is the exception to this rule: alcohol is allowed on Fridays?",
            "clients|present",
        ),
        ("Every employee has 26 days.", "How many days does every employee have?", "26"),
        ("Claims must be sent within 45 days.", "Within how many days must claims be sent?", "45"),
        ("Flights must be approved by the director.", "Who must approve flights?", "director"),
        ("The laundry is washed on Tuesdays.", "When is the laundry washed?", "Tuesdays"),
        ("The stove switches off after forty minutes.", "When does the stove switch off?", "forty"),
        ("The car must be returned to Torben Ruud.", "Who must the car be returned to?", "Torben|Ruud"),
        ("Complaints go to the works council.", "Who do complaints go to?", "council"),
        ("Special leave cannot be paid out.", "Can special leave be paid out?", DENIAL),
        ("Up to five days may be carried over.", "How many days may be carried over?", "five"),
        ("The mill was built in 1786 by Ann Lee.", "Who built the mill?", "Ann|Lee"),
        ("The sauna holds nine people and is cleaned on Monday.", "When is the sauna cleaned?", "Monday"),
        (
            "The sauna holds nine people and is cleaned on Monday.",
            "How many people does the sauna hold?",
            "nine",
        ),
        ("The meeting is on Tuesday at ten in room Birch.", "When is the meeting?", "Tuesday"),
        ("A berth costs 1,450 euros for up to nine metres.", "How much does a berth cost?", "1,450"),
        ("Messages wait in a queue called outbox.", "What is the queue called?", "outbox"),
        ("Contractors have no paid leave.", "Do contractors have paid leave?", DENIAL),
        ("A message is tried five times.", "How many times is a message tried?", "five"),
        ("The tower is 17 metres high.", "How high is the tower?", "17"),
        ("The queue is stored in Redis.", "Where is the queue stored?", "Redis"),
        ("Trailers must be booked ten days ahead.", "How many days ahead must trailers be booked?", "ten"),
        ("The tiller must be booked by email.", "How must the tiller be booked?", "email"),
        ("Report leaks to Dana Whitfield, phone 555.", "Who do I report leaks to?", "Dana|Whitfield"),
        ("Put weeds into bin 5.", "Where do I put weeds?", "5"),
        ("Slug pellets are forbidden.", "Are slug pellets allowed?", DENIAL),
        ("The hall is open from 7 a.m. to 9 p.m.", "From when is the hall open?", "7"),
        ("Routes are planned by Eva Lind.", "Who plans routes?", "Eva|Lind"),
        ("Fares are supplied by Eva Lind.", "Who supplies fares?", "Eva|Lind"),
    ],
)
def test_a_sentence_becomes_the_question_that_it_answers(sentence, question, answer):
    assert any(fact.expected == answer and question in fact.forms for fact in sentence_facts(sentence))


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    [
        # Names in apposition.
        ("The town has one square, called Fern Yard.", "What is the square called?", "Fern|Yard"),
        ("We eat at the inn, the Old Goose, on Fridays.", "What is the inn called?", "Old|Goose"),
        ("The name of our boat, Blue Rain, is new.", "What is the name of our boat?", "Blue|Rain"),
        ("A potter, Ines Roth, lives in the old mill.", "Who is the potter?", "Ines|Roth"),
        ("A potter, Ines Roth, lives in the old mill.", "Where does the potter live?", "mill"),
        # Places and origins.
        ("The balloon lands on the golf course.", "Where does the balloon land?", "course"),
        ("In a storm the ferry docks at the west quay.", "Where does the ferry dock in a storm?", "quay"),
        ("Guests may park behind the barn.", "Where may guests park?", "barn"),
        ("Honey comes from the hives in Fern Wood.", "Where does honey come from?", "hives|Fern|Wood"),
        ("Seeds are bought from the garden centre.", "Where are seeds bought from?", "centre"),
        # Durations, frequencies, numbers and prices.
        ("The bus crosses the pass in 40 minutes.", "How long does the bus take to cross the pass?", "40"),
        ("Patients currently wait about two hours.", "How long do patients wait?", "two"),
        ("Scouts may camp for three nights.", "For how long may scouts camp?", "three"),
        ("The vet comes every third Monday.", "How often does the vet come?", "Monday"),
        ("Each child gets two free tickets.", "How many free tickets does each child get?", "two"),
        ("There are six lamps in the hall.", "How many lamps are there in the hall?", "six"),
        ("The farm has 20 goats and two dogs.", "How many dogs does the farm have?", "two"),
        ("Guests pay 6 pounds for a towel.", "How much do guests pay for a towel?", "6"),
        ("The club pays half of the fare.", "How much of the fare does the club pay?", "half"),
        ("The fee is 9 euros, or 4 euros for pupils.", "How much is the fee for pupils?", "4"),
        # Times.
        (
            "On 3 June the whole town walks to the tower.",
            "When does the whole town walk to the tower?",
            "June",
        ),
        ("We train on Thursdays.", "When do you train?", "Thursdays"),
        # Relative clauses.
        ("The prize is in Ludd Hall, which seats 90.", "How many people does Ludd Hall seat?", "90"),
        ("It opens a side gate, whose code is 7409.", "What is the code of the side gate?", "7409"),
        ("The inn was opened in 1910 by the baker Eva Ros, who sang.", "Who opened the inn?", "Eva|Ros"),
        ("The fee is low, and it is collected by Eva Ros.", "Who collects the fee?", "Eva|Ros"),
        ("Visitors need a permit from the warden.", "What do visitors need?", "permit"),
    ],
)
def test_a_narrative_sentence_becomes_the_questions_that_it_answers(sentence, question, answer):
    assert (answer, (question,)) in sentence_facts(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "The largest meets in the barn.",
        "The cook lives at the end of the lane.",
        "The machine runs in the background.",
        "The bus stops in the village are new.",
        "In the north, Eira Lund, the ranger, has dogs.",
        "The parcel comes from the depot if it is late.",
        "A dog that wakes neighbours three times must leave.",
    ],
)
def test_narrative_sentences_that_leave_open_what_they_mean_have_no_questions(sentence):
    assert not sentence_facts(sentence)


def test_what_is_too_long_for_a_sentence_is_left_alone():
    assert sentence_facts("The club costs " + "on a " * 200 + "4") == []


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    [
        # Places and times.
        ("The gate is locked at night.", "When is the gate locked?", "night"),
        ("The meeting is held in the first week of May.", "When is the meeting held?", "May"),
        ("The mill was built in June 1786.", "When was the mill built?", "1786"),
        ("Rent is due on 15 March.", "When is rent due?", "March"),
        # Durations and prices.
        ("Towels are rented for three euros.", "For how much are towels rented?", "three"),
        ("The badge is valid for 18 months.", "For how long is the badge valid?", "18"),
        # People, without the time and place of what they do; a name or an office is right.
        ("Tea is made by the altos in spring.", "Who makes tea?", "altos"),
        ("Appeals go to the parish clerk within 10 days.", "Who do appeals go to?", "clerk"),
        ("Accidents are reported to Greta within two hours.", "Who are accidents reported to?", "Greta"),
        ("The form goes to the manager, Dora Elsner.", "Who does the form go to?", "manager|Dora|Elsner"),
        # Conditions belong to the clause next to them.
        (
            "It sails four times a day, but the ferry stays in port when the wind is strong.",
            "What happens when the wind is strong?",
            "ferry|stays|port",
        ),
        (
            "The society charges a deposit of 70 pounds, which is returned when the plot is clean.",
            "What happens when the plot is clean?",
            "returned",
        ),
        (
            "After error 7, the archive is locked, and Ann Lee opens it.",
            "What happens after error 7?",
            "archive|locked",
        ),
        # Any name or long word of an exception is right.
        (
            "Colleagues may ride along, except those from the Ravel waterworks.",
            "What is the exception to this rule: colleagues may ride along?",
            "Ravel|waterworks",
        ),
        # Denials are of one clause.
        (
            "Version 4.7 needs 3 gigabytes and cannot open old files.",
            "Can version 4.7 open old files?",
            DENIAL,
        ),
        ("No helper may be started on Fridays.", "May any helper be started on Fridays?", DENIAL),
        # Numbers come before their units.
        ("The cable is 1.6 metres long.", "How long is the cable?", "1.6"),
        ("The speed of port 1 is 10 Gbit.", "What is the speed of port 1?", "10"),
        ("The tallest viaduct is the Nine Sisters.", "What is the tallest viaduct?", "Nine|Sisters"),
    ],
)
def test_the_expected_words_are_what_a_reader_would_mark_right(sentence, question, answer):
    expected = [fact.expected for fact in sentence_facts(sentence) if question in fact.forms]
    assert expected == [answer]


@pytest.mark.parametrize(
    "sentence",
    [
        "Jury service is paid in full.",
        "Contracts are recognised in colour.",
        "A vehicle is given to someone else.",
        "At least two thirds of every plot must be planted.",
        "Frost mode starts by itself, but only if switch K is up.",
        "Replace the seal every two years, or every year if the water contains sand.",
        "Dogs are kept indoors in June, when the terns are nesting.",
        "Children may sit in the gallery if an adult goes with them.",
        "Only a dealer may replace it.",
        "Do not open it at all in the last two days, unless the red lamp flashes.",
        "Bring a letter, since a passport alone is not enough.",
        "The company then pays 32 cents per kilometre.",
    ],
)
def test_sentences_on_which_a_reader_would_ask_something_else_have_no_wrong_question(sentence):
    wrong = ("Where", "Who", "How many", "What happens", "What is the exception", "May I", "Is ")
    assert not [form for fact in sentence_facts(sentence) for form in fact.forms if form.startswith(wrong)]


@pytest.mark.parametrize("text", ["", "...", "If  , x y.", "Only two can    ", "! !", "It is, or if  "])
def test_scraps_have_no_facts(text):
    assert sentence_facts(text) == []


def test_a_rule_with_an_exception_is_not_a_denial():
    facts = sentence_facts("Alcohol is not paid, unless clients are present.")
    assert [fact.expected for fact in facts] == ["clients|present"]
