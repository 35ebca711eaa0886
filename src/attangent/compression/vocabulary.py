"""Words that questions are made without: function words and the generic last words of names."""

# Function words in English and German.
SMALL = frozenset((
    "a", "aber", "about", "after", "all", "alle", "als", "also", "always", "am", "an", "and", "any",
    "are", "as", "at", "auch", "auf", "aus", "be", "been", "before", "bei", "beim", "beside", "between",
    "bis", "but", "by", "can", "could", "das", "dem", "den", "der", "des", "did", "die", "do", "does",
    "during", "each", "ein", "eine", "einem", "einen", "einer", "eines", "either", "er", "es", "every",
    "everybody", "everyone", "for", "from", "für", "gegen", "haben", "had", "has", "hat", "have", "he",
    "her", "his", "how", "i", "if", "ihr", "im", "in", "into", "is", "ist", "it", "its", "itself", "jede",
    "jeder", "jedes", "kann", "können", "man", "may", "might", "mit", "more", "most", "muss", "must",
    "müssen", "nach", "nicht", "no", "noch", "nor", "not", "nur", "oder", "of", "off", "on", "once",
    "one", "only", "or", "other", "our", "out", "over", "own", "per", "please", "sein", "shall", "she",
    "should", "sich", "sie", "since", "sind", "so", "some", "sowie", "such", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "through", "to", "um", "und",
    "under", "unless", "until", "up", "us", "vom", "von", "vor", "war", "waren", "was", "we", "werden",
    "were", "what", "when", "where", "whether", "which", "while", "who", "whoever", "whom", "whose",
    "will", "wir", "wird", "with", "within", "without", "would", "you", "your", "zu", "zum", "zur",
    "über",
))  # fmt: skip
# Last words of names that are easily guessed, and units.
GENERIC = frozenset((
    "city", "dr", "mr", "mrs", "ms", "prof", "town",
    "bridge", "building", "center", "centre", "club", "company", "department", "dollar", "euro", "euros",
    "franken", "hall", "haus", "hotel", "house", "lake", "library", "office", "platz", "prozent", "river",
    "road", "room", "school", "square", "straße", "street", "team", "uhr",
))  # fmt: skip
