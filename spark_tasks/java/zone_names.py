"""English names of time zones that SimpleDateFormat parses, with their offsets from UTC.

As Java 17 takes them if none was parsed before. Names whose offset has changed since 1950, such as MSK, are missing.
tests/golden/java/Zones.java prints the table.
"""

from __future__ import annotations

from typing import Final

_NAMES: Final = {  # by minutes east of UTC
    -660: "SDT|SST|Samoa Daylight Time|Samoa Standard Time",
    -600: (
        "HDT|HST|Hawaii Standard Time|Hawaii-Aleutian Daylight Time|Hawaii-Aleutian Standard Time|"
        "TAHST|TAHT|Tahiti Summer Time|Tahiti Time"
    ),
    -570: "MARST|MART|Marquesas Summer Time|Marquesas Time",
    -540: "GAMST|GAMT|Gambier Summer Time|Gambier Time",
    -480: "Northwest Mexico Standard Time|PST|Pacific Standard Time|Pitcairn Time",
    -420: (
        "MST|Mexican Pacific Standard Time|Mountain Standard Time|Northwest Mexico Daylight Time|PDT|"
        "Pacific Daylight Time"
    ),
    -360: "CST|Central Standard Time|MDT|Mountain Daylight Time",
    -300: (
        "CDT|COT|Central Daylight Time|Colombia Standard Time|Cuba Standard Time|ECT|EST|"
        "Eastern Standard Time|Ecuador Time|PET|Peru Standard Time"
    ),
    -240: (
        "AST|Amazon Standard Time|Atlantic Standard Time|BOST|BOT|Bolivia Summer Time|Bolivia Time|"
        "CLT|Chile Standard Time|Cuba Daylight Time|EDT|Eastern Daylight Time"
    ),
    -210: "NST|Newfoundland Standard Time",
    -180: ("ADT|Atlantic Daylight Time|BRT|Brasilia Standard Time|CLST|Chile Summer Time|UYT|Uruguay Standard Time"),
    -150: "NDT|Newfoundland Daylight Time",
    -120: "FNT|Fernando de Noronha Standard Time|South Georgia Daylight Time|South Georgia Time",
    0: "Coordinated Universal Time|GHST|Ghana Summer Time|Greenwich Mean Time|UTC",
    60: (
        "CET|Central European Standard Time|Central European Time|Irish Standard Time|MET|"
        "Middle Europe Time|WAST|WAT|West Africa Standard Time|West Africa Summer Time"
    ),
    120: (
        "CAST|CAT|CEST|Central Africa Time|Central African Summer Time|Central European Summer Time|"
        "EET|Eastern European Standard Time|IST|Israel Standard Time|MEST|Middle Europe Summer Time|"
        "SAST|South Africa Standard Time|South Africa Summer Time"
    ),
    180: (
        "Arabian Daylight Time|Arabian Standard Time|EAST|EAT|EEST|East Africa Time|"
        "Eastern African Summer Time|Eastern European Summer Time|IDT|Israel Daylight Time|SYOST|SYOT|"
        "Syowa Summer Time|Syowa Time"
    ),
    240: (
        "GDT|GST|Gulf Daylight Time|Gulf Standard Time|MUT|Mauritius Standard Time|REST|RET|"
        "Reunion Summer Time|SCST|SCT|Seychelles Summer Time|Seychelles Time"
    ),
    270: "AFST|AFT|Afghanistan Summer Time|Afghanistan Time",
    360: "XJDT|XJT|Xinjiang Daylight Time|Xinjiang Standard Time",
    390: ("CCST|CCT|Cocos Islands Summer Time|Cocos Islands Time|MMST|MMT|Myanmar Summer Time|Myanmar Time"),
    420: "CXST|CXT|Christmas Island Summer Time|Christmas Island Time",
    480: (
        "AWST|Australian Western Standard Time|BNST|BNT|Brunei Darussalam Time|Brunei Summer Time|"
        "CIST|Central Indonesia Summer Time|Central Indonesia Time|China Standard Time|HKT|"
        "Hong Kong Standard Time|MYST|MYT|Malaysia Summer Time|Malaysia Time|Philippine Standard Time|"
        "Taipei Standard Time"
    ),
    525: "ACWST|Australian Central Western Standard Time",
    540: "JST|Japan Standard Time|PWST|PWT|Palau Summer Time|Palau Time",
    570: "ACDT|ACST|Australian Central Daylight Time|Australian Central Standard Time",
    600: (
        "AEST|Australian Eastern Standard Time|CHUST|CHUT|ChST|Chamorro Standard Time|"
        "Chuuk Summer Time|Chuuk Time|DDUST|DDUT|Dumont-d'Urville Summer Time|PGST|PGT|"
        "Papua New Guinea Summer Time|Papua New Guinea Time"
    ),
    660: (
        "AEDT|Australian Eastern Daylight Time|NCT|New Caledonia Standard Time|PONST|PONT|"
        "Pohnpei Summer Time|Ponape Time|SBST|SBT|Solomon Is. Summer Time|Solomon Islands Time|VUT|"
        "Vanuatu Standard Time"
    ),
    720: (
        "FJT|Fiji Standard Time|GILST|GILT|Gilbert Is. Summer Time|Gilbert Islands Time|MHST|MHT|"
        "Marshall Islands Summer Time|Marshall Islands Time|NZST|New Zealand Standard Time|TVST|TVT|"
        "Tuvalu Summer Time|Tuvalu Time|WAKST|WAKT|WFST|WFT|Wake Island Time|Wake Summer Time|"
        "Wallis & Futuna Summer Time|Wallis & Futuna Time"
    ),
    765: "CHAST|Chatham Standard Time",
    780: "NZDT|New Zealand Daylight Time",
    825: "CHADT|Chatham Daylight Time",
}
MINUTES: Final = {name.lower(): minutes for minutes, names in _NAMES.items() for name in names.split("|")}
FIRST, LAST = -631_152_000_000, 4_102_444_800_000  # 1950 to 2099: when the offsets hold
