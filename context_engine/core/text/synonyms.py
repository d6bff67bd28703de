"""Words that policies and their readers use for one thing: "retain" and "keep", "terminate" and "leave"."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from context_engine.core.text.tokens import stems

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
    test tested testing tester exercise drill simulate simulation | outsider outsiders external externally third-party |
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
    own owned owner ownership |
    lead leads leader head | manage manages administer administration administrator run operate maintain |
    decide determine decision | choose select selection | name appoint designate nominate |
    take-over succeed successor succession | consist comprise include contain | member members belong membership |
    place location site | building office facility premises | room area | abroad overseas foreign |
    encrypt encryption encrypted protect | protect safeguard secure protection | connect connection access reach |
    install installation download | software application program | privately personal own |
    colleague coworker anyone anybody somebody someone | wrong invalid incorrect failed erroneous |
    attempt try retry | loss lost lose | stolen theft steal | follow comply compliance |
    punish punished punishment discipline disciplinary retaliation sanction | good-faith faith |
    postpone delay defer | extend prolong extension lengthen | temporary interim | permanent persistent perpetual |
    duration period length | long length | version edition revision | draft proposal | meeting meet session |
    trade transaction deal | error mistake fault | medium moderate | severe critical serious | big large major |
    small minor | reboot restart | led lead | held hold | kept keep | told tell | sent send | found find |
    written write wrote | given give gave | taken take took | paid pay | sold sell | bought buy | left leave |
    lost lose | built build rebuilt rebuild | met meet | ran run | chosen choose chose | broken break | stolen steal |
    drawn draw | made make | done do | lent lend | spent spend | sought seek | brought bring | caught catch |
    taught teach | shown show | known know | seen see saw | gone go went | driven drive drove | hidden hide |
    forgotten forget | withdrawn withdraw withdrew | laid lay | bound bind | frozen freeze | said say | stood stand |
    sell market distribute | pen pentest penetration | apply applicable relevant |
    mandatory compulsory obligatory | watch monitor observe oversee supervise | replace replaced supersede superseded |
    aim aimed intend intended | put post | visitor guest | evidence proof prove demonstrate | cancel annul terminate |
    obey adhere comply | schedule timetable calendar | dismiss dismissal fire terminate termination |
    authorisation authorization permission consent approval | urgent emergency | gift present hospitality |
    dangerous hazardous harmful | repeat recur recurrence | happen occur arise |
    won win | fallen fall | begun begin began | dealt deal | accompany escort | child minor juvenile |
    illegal unlawful | licence license | enrol enroll | salary wage | vehicle car | wireless wifi | film video footage
"""
"""Groups of words, separated by bars; a word may stand in several."""


_NONE: Final[Mapping[str, str]] = {}


@lru_cache(maxsize=1)
def _by_stem() -> Mapping[str, Mapping[str, str]]:
    by_stem: dict[str, dict[str, str]] = {}
    for group in _GROUPS.split("|"):
        named: dict[str, str] = {}
        for stem, word in zip(stems(group.split()), group.split()):
            named.setdefault(stem, word)
        for stem in named:
            by_stem.setdefault(stem, {}).update({other: word for other, word in named.items() if other != stem})
    return by_stem


def synonyms(stem: str) -> Mapping[str, str]:
    """Return {stem: word} of the words that may stand for a word with a stem; none if it is in no group.

    >>> synonyms("toler")
    {'appetit': 'appetite', 'accept': 'accept'}
    """
    return _by_stem().get(stem, _NONE)
