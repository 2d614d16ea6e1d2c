"""A small list of everyday English words that can stand for each other, by group.

Each form of a word has its own group, so that a replacement keeps number and tense. No
word stands in two groups: one with several senses stands in that of the commonest, or
in none.
"""

_STOP_WORDS = """
a an the this that these those such same other another each every either neither
both all any some no none few many much more most less least own several
i me my mine myself we us our ours ourselves you your yours yourself yourselves he
him his himself she her hers herself it its itself they them their theirs themselves
one ones someone anyone everyone somebody anybody everybody nobody something
anything everything nothing who whom whose which what when where why how whoever
whatever whenever wherever whether
am is are was were be been being have has had having do does did doing done can
could may might must shall should will would ought let lets need cannot
and or but nor so yet if then else because as since unless until while although
though than
of at by for with about against between among into through during before after above
below to from up down in out on off over under within without upon across along
around behind beside besides beyond toward towards per via near like
not never ever again further once here there just only also too very even still
already almost quite rather really now
ain't aren't can't couldn't didn't doesn't don't hadn't hasn't haven't he'd he'll
he's how's i'd i'll i'm i've isn't it'd it'll it's let's mustn't needn't she'd
she'll she's shouldn't that's there's they'd they'll they're they've wasn't we'd
we'll we're we've weren't what's where's who's won't wouldn't you'd you'll you're
you've
zero two three four five six seven eight nine ten hundred thousand million billion
first second third
"""

STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that carry grammar more than meaning, and numbers: never replaced."""

GROUPS = """
# Size, quantity, degree
big, large, sizeable
bigger, larger
biggest, largest
small, little, tiny
numerous, countless
entire, whole
entirely, completely, totally, wholly, fully
approximately, roughly
extremely, exceedingly, immensely
especially, particularly, notably
mainly, chiefly, mostly, primarily
additional, extra
huge, enormous, gigantic, vast

# Good and bad
good, decent
great, terrific, splendid
best, finest
bad, lousy
awful, dreadful, terrible, horrible
wonderful, marvellous, fantastic
perfect, flawless, ideal
excellent, outstanding, superb
nice, pleasant, agreeable
beautiful, lovely, gorgeous
ugly, unsightly
useful, helpful, handy
useless, worthless
important, significant, crucial
essential, vital, indispensable
valuable, precious
famous, renowned, well-known
popular, well-liked
strange, odd, peculiar
unusual, uncommon
usual, customary
common, widespread
rare, scarce

# Easy and hard, right and wrong
easy, simple
easier, simpler
easiest, simplest
easily, effortlessly, readily
difficult, tough
correct, accurate
correctly, accurately
wrong, incorrect
false, untrue
possible, feasible
impossible, unattainable
safe, secure
dangerous, hazardous, risky
necessary, required
clear, evident, obvious
clearly, evidently, obviously
certain, sure
probably, presumably
perhaps, maybe, possibly

# Time and speed
fast, quick, rapid, speedy
faster, quicker, speedier
fastest, quickest, speediest
quickly, rapidly, swiftly, speedily
slowly, gradually
often, frequently
sometimes, occasionally
seldom, rarely
usually, normally, generally, typically
currently, presently
recently, lately
immediately, instantly, promptly
suddenly, abruptly
finally, eventually, ultimately
previously, formerly
modern, contemporary
ancient, age-old
begin, start, commence
begins, starts, commences
beginning, starting, commencing
finish, conclude
finished, concluded
stop, halt
continue, carry on, go on
continues, carries on, goes on

# Ways and things
way, method, manner
ways, methods, manners
approach, technique
approaches, techniques
difference, distinction
differences, distinctions
advantage, benefit
advantages, benefits
disadvantage, drawback, downside
disadvantages, drawbacks, downsides
error, mistake
errors, mistakes
goal, aim, objective
goals, aims, objectives
purpose, intention
result, outcome, consequence
results, outcomes, consequences
example, instance
examples, instances
idea, notion
ideas, notions
opinion, viewpoint
opinions, viewpoints
answer, reply, response
answers, replies, responses
suggestion, proposal
suggestions, proposals
chance, likelihood
kind, sort, type
kinds, sorts, types
place, location, spot
places, locations, spots
area, region
areas, regions
trip, journey
trips, journeys
picture, image
pictures, images
film, movie, motion picture
films, movies, motion pictures
phone, telephone
phones, telephones
car, automobile
cars, automobiles
bike, bicycle
bikes, bicycles
plane, aeroplane, airplane
shop, store
shops, stores
garbage, rubbish, trash
photo, photograph, snapshot
photos, photographs, snapshots
salary, wage
salaries, wages
job, occupation, profession
jobs, occupations, professions
firm, company
firms, companies
illness, disease, sickness
illnesses, diseases, sicknesses
doctor, physician
doctors, physicians
lawyer, attorney
lawyers, attorneys
exam, examination
exams, examinations
amount, quantity
ability, capability
abilities, capabilities

# People
people, folks, persons
kid, child, youngster
kids, children, youngsters
boy, lad
boys, lads
woman, lady
women, ladies
mother, mom, mum
father, dad
friend, buddy, pal
friends, buddies, pals
teacher, instructor
teachers, instructors
student, pupil
students, pupils
author, writer
authors, writers
beginner, novice, newcomer
beginners, novices, newcomers
enemy, foe
enemies, foes
guy, fellow
guys, fellows

# Doing
help, assist, aid
helps, assists, aids
helped, assisted, aided
helping, assisting, aiding
buy, purchase
buys, purchases
bought, purchased
buying, purchasing
choose, select
chooses, selects, picks
choosing, selecting, picking
build, construct
builds, constructs
built, constructed
building, constructing
create, produce
creates, produces
created, produced
creating, producing
fix, repair, mend
fixes, repairs, mends
fixed, repaired, mended
fixing, repairing, mending
improve, enhance
improves, enhances
improved, enhanced
improving, enhancing
increase, boost
increases, boosts
increased, boosted
increasing, boosting
decrease, reduce, lessen
decreases, reduces, lessens
decreased, reduced, lessened
decreasing, reducing, lessening
remove, eliminate, get rid of
removes, eliminates, gets rid of
removed, eliminated
removing, eliminating, getting rid of
delete, erase
deleted, erased
deleting, erasing
allow, permit
allows, permits
allowed, permitted
allowing, permitting
forbid, prohibit
forbidden, prohibited
try, attempt
tries, attempts
tried, attempted
trying, attempting
showed, displayed, exhibited
showing, displaying, exhibiting
happen, occur, take place
happens, occurs, takes place
happened, occurred
happening, occurring, taking place
explain, clarify
explains, clarifies
explained, clarified
explaining, clarifying
destroy, demolish
destroyed, demolished
prevented, averted
change, alter, modify
changes, alters, modifies
changed, altered, modified
changing, altering, modifying
convert, transform
converted, transformed
converting, transforming
sleep, slumber
speak, talk
speaks, talks
speaking, talking
shout, yell
shouted, yelled
told, informed
tell, inform
announced, declared, proclaimed
announce, declare, proclaim
asked, inquired
claimed, asserted, maintained
claims, asserts, maintains
suggest, propose
suggested, proposed
believe, reckon
believed, reckoned
understand, comprehend, grasp
understanding, comprehending, grasping
remember, recall
remembered, recalled
hate, detest, loathe
hates, detests, loathes
hated, detested, loathed

# Feeling and being
happy, glad, cheerful
happier, gladder
happiness, joy
sad, unhappy, sorrowful
sadness, sorrow
angry, furious, irate
afraid, frightened, scared
tired, weary
ill, sick, unwell
rich, wealthy, affluent
richest, wealthiest
smart, clever, intelligent
smarter, cleverer
smartest, cleverest
stupid, foolish, silly
funny, amusing, humorous
boring, dull, tedious
interesting, intriguing, engaging
brave, courageous, fearless
honest, truthful, sincere
polite, courteous
rude, impolite
weird, bizarre
strong, powerful, mighty
stronger, mightier
strongest, mightiest
weak, feeble
calm, serene
cheap, inexpensive
costly, expensive, pricey
dirty, filthy
different, distinct
"""
"""Groups as a file of the user's would have them: see `synonyms.WordList`."""
