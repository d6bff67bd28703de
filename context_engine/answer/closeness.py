"""How far a word of a text says what a word of a question says: the same word, a synonym of policies, another form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final

from context_engine.core.text import stems, terms

_GROUPS: Final = """
    keep kept retain retention store stored storage hold held preserve maintain archive save |
    delete deletion remove removal erase purge destroy destruction wipe dispose disposal discard |
    finish complete completion end | end ending terminate termination expire expiry expiration lapse cease stop |
    leave leaver leaving exit exiting depart departure termination terminate resign offboarding separation |
    join joiner starter hire hired hiring onboarding recruit |
    cut revoke revoked withdraw terminate remove disable deactivate inactivate block suspend |
    deactivate deactivated inactivate inactivated disable disabled |
    approve approval authorise authorize authorisation authorization sign-off signoff sign accept endorse clear |
    check review inspect inspection audit examine assess assessment verify verification look |
    confirm verify validate validation |
    tell told inform notify notification notice report advise alert announce communicate |
    report reporting escalate raise file filed | ask request apply application demand |
    start begin initiate initiation launch commence open activate |
    agree agreement consent accept acceptance affirm affirmation | allow allowed permit permitted authorise enable |
    forbid forbidden prohibit prohibited ban banned disallow | need require requirement required necessary |
    buy purchase procure procurement acquire acquisition obtain | get obtain receive acquire |
    give provide supply grant issue hand | give disclose disclosure share reveal divulge |
    disclose disclosure publish release share |
    change modify modification alter amend amendment edit update adjust revise revision |
    renew renewal rotate rotation regenerate replace | rotate rotation change | open unresolved outstanding pending |
    tolerate tolerance appetite accept | fix remediate remediation resolve resolution repair correct mitigate patch |
    test tested testing exercise drill simulate simulation | outsider outsiders external externally third-party |
    insider internal internally | copy backup replicate duplicate | backup backed back-up back |
    quick quickly fast prompt promptly soon immediately | lock lockout locked | log-off logoff logout logged log |
    log-on logon login log | login sign-in authentication authenticate | screen screensaver workstation |
    idle inactive inactivity unattended | laptop notebook workstation computer device endpoint |
    phone telephone mobile smartphone | text sms message | usb flash stick drive removable | badge card key |
    password passphrase passcode secret credential pin | id identifier identity | boss manager supervisor superior |
    worker employee staff personnel workforce member | team department group unit | board bod directors |
    supplier vendor provider contractor subcontractor | client customer | fine penalty sanction |
    handbook manual guide | incident event | outage interruption disruption downtime disaster |
    disaster emergency contingency crisis | breach leak leakage violation | attack intrusion | hacker attacker |
    weakness vulnerability flaw deficiency | finding vulnerability issue | threat risk hazard |
    limit cap maximum ceiling threshold | least minimum | yearly annual annually year | monthly month | weekly week |
    daily day | quarterly quarter | salary pay compensation remuneration | cost price fee charge expense |
    money fund cash | lawyer counsel legal attorney | police law-enforcement enforcement |
    regulator authority supervisor | complaint grievance objection | training course education session | teach train |
    document documentation | paper printed print | list register inventory log catalogue |
    role post position function job | duty responsibility obligation task | responsible owner accountable charge |
    own owned owner ownership | lead leads leader head |
    manage manages administer administration administrator run operate maintain | decide determine decision |
    choose select selection | name appoint designate nominate | take-over succeed successor succession |
    consist comprise include contain | member members belong membership | place location site |
    building office facility premises | room area | abroad overseas foreign | encrypt encryption encrypted protect |
    protect safeguard secure protection | connect connection access reach | install installation download |
    software application program | privately personal own | colleague coworker anyone anybody somebody someone |
    wrong invalid incorrect failed erroneous | attempt try retry | loss lost lose | stolen theft steal |
    follow comply compliance | punish punished punishment discipline disciplinary retaliation sanction |
    good-faith faith | postpone delay defer | extend prolong extension lengthen | temporary interim |
    permanent persistent perpetual | duration period length | long length | version edition revision | draft proposal |
    meeting meet session | trade transaction deal | error mistake fault | medium moderate | severe critical serious |
    big large major | small minor | reboot restart | led lead | sent send | found find | written write wrote |
    given give gave | taken take took | paid pay | sold sell | bought buy | left leave | built build rebuilt rebuild |
    met meet | ran run | chosen choose chose | broken break | drawn draw | made make | done do | lent lend |
    spent spend | sought seek | brought bring | caught catch | taught teach | shown show | known know | seen see saw |
    gone go went | driven drive drove | hidden hide | forgotten forget | withdrawn withdraw withdrew | laid lay |
    bound bind | frozen freeze | said say | stood stand | sell market distribute | pen pentest penetration |
    apply applicable relevant | mandatory compulsory obligatory required | watch monitor observe oversee supervise |
    replace replaced supersede superseded | aim aimed intend intended | put post | visitor guest |
    evidence proof prove demonstrate | cancel annul terminate | obey adhere comply | schedule timetable calendar |
    dismiss dismissal fire terminate termination | authorisation authorization permission consent approval |
    urgent emergency | gift present hospitality | dangerous hazardous harmful | repeat recur recurrence |
    happen occur arise | won win | fallen fall | begun begin began | dealt deal | accompany escort |
    extra additional further | child minor juvenile | warn warning remind prompt | contradict conflict inconsistent |
    win prevail precedence | appraise appraisal review evaluate evaluation | evaluate evaluation assess assessment |
    together meet gather convene | unlimited indefinite unrestricted | several multiple |
    separate apart segregate isolate independent | correct accurate | improve enhance enhancement |
    hurt harm damage injure | stop prevent halt | block refuse reject deny decline | use utilize leverage employ |
    fast rapid | show display present | hide mask conceal | see view read | global worldwide international |
    law legislation statute regulation | illegal unlawful | judge judicial court | suspicious suspect suspicion |
    pretend impersonate impersonation spoof | fake forge falsify fraudulent counterfeit | fraud fraudulent scam |
    virus malware malicious | infect compromise hack | eavesdrop intercept | trace traceability track |
    measure metric indicator | chart graph diagram figure | picture image photo | film video footage |
    camera surveillance cctv | enter entry | spare redundant alternate secondary | first initial |
    main primary principal | last final | newest latest recent current | former previous prior past earlier |
    old obsolete deprecated legacy outdated | often frequent | always constantly continuous |
    usual normal typical default | unusual abnormal anomaly anomalous | essential vital crucial |
    important significant | whole entire full | enough sufficient adequate | suitable appropriate |
    fair impartial objective | secret confidential sensitive | anonymous pseudonymous unnamed |
    recognise identify detect | detect discover notice spot detection discovery | search look query lookup |
    ask consult | answer respond response reply react | email mail | letter post postal mail | talk discuss speak |
    explain describe clarify description | justify justification rationale reason | unambiguous clear explicit |
    express explicit | wish prefer preference | plan strategy roadmap | goal target | skill expertise competence |
    qualification qualified expertise | freelancer contractor | subsidiary affiliate |
    shareholder stakeholder investor | auditor assessor examiner | expert specialist |
    help support assist assistance aid | maintenance upkeep | configure configuration setting setup |
    option choice alternative | substitute alternative deputy | deputy delegate designee substitute |
    move transfer relocate migrate | send transmit transfer deliver submit | invoice bill | refund reimburse repay |
    reward incentive recognition bonus | increase raise grow expand | reduce decrease lower minimise |
    restrict limit restriction | combine combination merge | collect gather collection | produce generate create |
    create establish develop | build develop construct | launch deploy deployment rollout release |
    rollback revert undo reverse | restore recover recovery reinstate | broken defective faulty |
    fail failure crash malfunction | bug defect flaw error | upgrade update | shred destruction destroy |
    rubbish trash bin discard | tidy clean clear | remotely remote telework | vacation holiday absence |
    misconduct misbehaviour wrongdoing | violate violation infringe contravene | ethics ethical conduct |
    bullying harassment discrimination | investigate investigation probe inquiry | lawsuit litigation sue |
    contract agreement | clause provision | valid effective active | void invalid | late overdue |
    lifetime life validity | citizen resident | everyone everybody | host hosted server | app application |
    website site web | programmer developer engineer coder | coding programming | library package dependency |
    component module element | utility tool | trail log audit | folder directory | template form | step stage phase |
    urgency priority | rating score grade | classify classification categorise category | kind type category |
    tag label mark | quantity volume | tier level grade | chance probability likelihood | consequence effect |
    benefit advantage | drawback disadvantage | insure insurance insurer | budget funding | manual manually hand |
    repeat again recur | rule requirement | allowance permission | resell sell | summary overview |
    spoken oral orally verbal verbally | unprotected unencrypted unsecured | unsafe insecure | record documentation |
    exception exemption waiver deviation | ratify approve endorse | acknowledge confirm | reconcile compare match |
    lend loan borrow | guarantee warranty | dealer trader | broker intermediary agent | valuation value price |
    maturity expiry tenor | planned scheduled | alarm alert notification page | comment remark feedback |
    survey questionnaire | participate participation | chairman chairperson chair | individual person human |
    guardian parent | stranger unidentified unknown | unauthorised unauthorized unapproved |
    intruder trespasser attacker | electricity power | licence license permit | fingerprint biometric |
    hardware equipment device | cupboard cabinet locker | vault safe | cipher algorithm encryption | tamper manipulate |
    uptime availability | speed latency performance | traffic load | trial pilot test | hotfix patch fix update |
    retire decommission deprecate | refresh update renew | guideline guidance advice guide |
    suggest recommend propose advise | exact precise | total overall sum | rest remainder remaining | majority most |
    percentage percent | zero none | instantly immediately | afterwards subsequently later |
    understandable readable clear plain | danger risk hazard | prepare preparation draft | rehearse exercise practice |
    practice practise exercise | describe define specify state | mention state name specify | demand insist require |
    hire employ | salary wage | pause suspend interrupt | resume restart continue | continue proceed | wait delay |
    avoid prevent | mistaken wrong | mislead deceive misrepresent | bypass circumvent evade override |
    hand-over handover transfer | outsource subcontract | on-call standby duty | escape evacuate evacuation |
    injury accident harm | locate find | solve resolve solution | examine test | trustworthy reliable trusted |
    unreliable untrusted | sign-up register registration enrol enroll enrollment | unsubscribe opt-out |
    nationality citizenship | address location | signal indication indicator sign | symptom sign indication |
    trigger cause initiate | cause reason | regularly periodically periodic routine | vehicle car |
    smartphone handset mobile | chat messaging slack | conversation call | wireless wifi wi-fi | webpage page website |
    hyperlink link | browser chrome | keyboard | shut close closed | shut-down shutdown | hourly hour |
    half-year semiannual | lawfully legally legal lawful | competitor rival | promise commitment commit undertake |
    commitment obligation | gossip rumour | journalist press media reporter | newspaper press media |
    marketing advertising promotion advertisement | advert advertisement advertising
"""
"""Words that policies and their readers use for one thing; a word may stand in several groups."""
CLOSE: Final = 0.85
"""Strength of a synonym; the word itself has 1."""

DERIVED: Final = 0.9
"""Strength of a longer or shorter form of the word, such as "administrator" for "administer"."""

_AMERICAN: Final = {"enc": "ens", "our": "or", "is": "iz", "ys": "yz"}
_BRITISH: Final = re.compile(r"(?<=\w{3})(?:enc|our|is|ys)$")
_LEAST_PREFIX: Final = 5
_MOST_ENDING: Final = 4


@lru_cache(maxsize=1)
def _by_stem() -> Mapping[str, frozenset[str]]:
    """Return for each stem the stems that stand in a group with it."""
    groups = [frozenset(stems(line.split())) for line in _GROUPS.split("|")]
    members = set(chain.from_iterable(groups))
    return {stem: frozenset(chain.from_iterable(group for group in groups if stem in group)) for stem in members}


def _one_spelling(stem: str) -> str:
    """Return a stem as Americans spell it: "licens" for "licenc", "honor" for "honour"."""
    return _BRITISH.sub(lambda end: _AMERICAN[end[0]], stem)


@lru_cache(maxsize=65_536)
def closeness(asked: str, written: str) -> float:
    """Return how far a word of a text says what a word of a question says, [0, 1].

    Args:
        asked, written: search terms as `core.text.terms` gives them.

    >>> closeness("retain", "retain"), closeness("keep", "retain"), closeness("keep", "limit")
    (1.0, 0.85, 0.0)
    """
    if asked == written or _one_spelling(asked) == _one_spelling(written):
        return 1.0
    if written in _by_stem().get(asked, ()):
        return CLOSE
    short, long = sorted((asked, written), key=len)
    derived = len(short) >= _LEAST_PREFIX and len(long) - len(short) <= _MOST_ENDING and long.startswith(short)
    return DERIVED if derived and short.isalpha() and long.isalpha() else 0.0


@lru_cache(maxsize=65_536)
def closest(asked: str, words: frozenset[str]) -> float:
    """Return how far one of some words says what a word of a question says, [0, 1]; see `closeness`."""
    return max((closeness(asked, word) for word in words), default=0.0)


def closest_of(asked: Iterable[str], text: str) -> float:
    """Return how far a word of a text says what one of a question's words says, [0, 1]."""
    words = frozenset(terms(text))
    return max((closest(term, words) for term in asked), default=0.0)
