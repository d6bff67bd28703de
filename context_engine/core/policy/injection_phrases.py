"""The phrases and rules of injection detection, in several languages: data of `core.policy.injection`.

Each class lists its phrases by language, separated by "|"; "*" stands for any ending of a word. Phrases are folded
before they are compared, so case, accents and look-alike letters make no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Rule(NamedTuple):
    """Classes of phrases that together are a sign if a sentence contains all of them, in any order.

    Attributes:
        classes: the class that is rarest in harmless text first; if it is missing, the others are not searched.
        weight: 2 is enough by itself, 1 with another rule or mark near it.
    """

    name: str
    classes: tuple[str, ...]
    weight: int


RULES: Final = (
    Rule("override", ("ignore", "earlier", "orders"), 2),
    Rule("override_yours", ("ignore", "yours", "orders"), 1),
    Rule("void", ("void", "yours", "orders", "earlier"), 1),
    Rule("reveal", ("prompt", "reveal"), 2),
    Rule("repeat", ("verbatim", "above", "reveal"), 2),
    Rule("persona", ("become", "model"), 2),
    Rule("act", ("unbound_model", "act_as"), 2),
    Rule("address", ("address",), 2),
    Rule("reader", ("reads_this", "named"), 2),
    Rule("ordered_model", ("named", "must"), 1),
    Rule("updated", ("updated", "yours", "orders"), 1),
    Rule("conceal", ("conceal", "user"), 1),
    Rule("hush", ("hush",), 1),
    Rule("become", ("become",), 1),
    Rule("pretend", ("pretend",), 1),
    Rule("answer", ("answer",), 1),
    Rule("task", ("task",), 1),
    Rule("renewed", ("renewed",), 1),
    Rule("from_now", ("from_now",), 1),
    Rule("obey", ("obey",), 1),
    Rule("mode", ("mode",), 1),
    Rule("unbound", ("unbound",), 1),
    Rule("tool", ("tool",), 1),
    Rule("confirmation", ("confirmation",), 1),
    Rule("game", ("game",), 1),
    Rule("recite", ("verbatim", "write_all"), 1),
    Rule("asked", ("asked",), 1),
    Rule("free", ("free",), 1),
    Rule("machine", ("machine",), 1),
    Rule("summary", ("summary",), 1),
)

_IGNORE: Final = {
    "en": "ignore|ignoring|disregard|disregarding|forget|discard|override|overrule|overwrite|bypass|neglect"
    "|stop following|do not follow|don t follow|pay no attention to|set aside|abandon|do not obey|cease following"
    "|no longer follow|drop|throw out|throw away|do not listen to|disobey",
    "de": "ignorier*|missacht*|vergiss|vergesst|vergessen sie|nicht beacht*|verwirf|verwerfen sie|überschreib*"
    "|umgeh*|außer acht|verwerft|beachte nicht|nicht beachten",
    "fr": "ignore|ignorez|ignorer|oublie|oubliez|oublier|ne tiens pas compte|ne tenez pas compte"
    "|ne tenez aucun compte|fais abstraction|faites abstraction|néglige|négligez|contourne|contournez",
    "es": "ignora|ignore|ignorar|ignoren|olvida|olvide|olviden|olvidar|haz caso omiso|haga caso omiso"
    "|hagan caso omiso|no tengas en cuenta|no tenga en cuenta|descarta|descarte|desestima|omite",
    "it": "ignora|ignorare|ignorate|ignori|dimentica|dimenticare|dimenticate|non tenere conto|non considerare"
    "|scarta|trascura|lascia perdere",
    "pt": "ignore|ignora|ignorar|ignorem|esqueça|esquece|esqueçam|esquecer|desconsidere|desconsidera|desconsiderar"
    "|despreze|descarte|não leve em conta",
    "nl": "negeer|negeren|vergeet|vergeten|sla geen acht op|houd geen rekening met",
    "pl": "zignoruj*|ignoruj*|zapomnij*|pomiń|odrzuć|nie zwracaj uwagi",
    "ru": "игнорируй*|проигнорируй*|игнорировать|забудь*|не обращай* внимания|не следуй*|отбрось*|не учитывай*",
    "tr": "yok say|yok sayın|unut*|göz ardı et|göz ardı edin|görmezden gel|görmezden gelin|dikkate alma*|boşver*",
    "ar": "تجاهل|تجاهلوا|انس|انسى|لا تتبع|اهمل|لا تلتزم",
    "hi": "अनदेखा|नज़रअंदाज़|भूल जा|उपेक्षा",
    "zh": "忽略|无视|無視|忘记|忘記|忘掉|不要理会|不要理會|不用理会|抛开|不理会|不要遵守",
    "ja": "無視|忘れて|忘れろ|従わない|破棄",
    "ko": "무시|잊어|잊으|따르지 마",
    "id": "abaikan|lupakan|jangan ikuti|jangan hiraukan|ketepikan|singkirkan",
    "vi": "bỏ qua|hãy quên|quên|phớt lờ|không tuân theo|đừng làm theo",
    "th": "เพิกเฉย|ลืม|ไม่ต้องสนใจ|ละเว้น|มองข้าม|อย่าทำตาม",
}

_EARLIER: Final = {
    "en": "previous|previously|prior|above|earlier|preceding|foregoing|former|all|every|everything|before|so far"
    "|original|initial|past|whatever|beforehand",
    "de": "vorherig*|bisherig*|obig*|vorangegangen*|vorangehend*|früher*|alle|aller|alles|sämtliche*|oben|vorig*"
    "|ursprünglich*|zuvor|vorher|bislang",
    "fr": "précédent*|antérieur*|ci dessus|toutes|tous|tout|plus haut|préalables|jusqu ici|initiales|au dessus",
    "es": "anteriores|anterior|previas|previos|previo|previa|todas|todos|todo|de arriba|más arriba|precedentes"
    "|originales|cualquier|precedente",
    "it": "precedenti|precedente|anteriori|tutte|tutti|tutto|di cui sopra|qui sopra|sopra|finora|originali",
    "pt": "prévias|prévios|prévia|prévio|qualquer|quaisquer|tudo|acima|até aqui|até agora|originais|antes",
    "nl": "vorige|eerdere|bovenstaande|voorgaande|hierboven|alle|alles|eerder|daarvoor",
    "pl": "poprzedni*|wcześniejsz*|powyższ*|wszystkie|wszystkich|wszystkim|dotychczasow*",
    "ru": "предыдущ*|прежни*|все|всё|всех|выше|вышеуказан*|ранее|прошлые|изначальн*",
    "tr": "önceki|yukarıdaki|tüm|bütün|şimdiye kadarki|evvelki",
    "ar": "السابقة|السابق|أعلاه|جميع|كل|المذكورة",
    "hi": "पिछले|पिछली|ऊपर|सभी|सारे|सारी|पूर्व|पहले",
    "zh": "之前|以上|上述|先前|前面|上面|所有|全部|此前|一切|以前|原来",
    "ja": "これまで|上記|以前|前の|上の|すべて|全て|先の|今まで|いままで|元の|先ほど",
    "ko": "이전|위의|앞의|모든|지금까지|기존|앞선",
    "id": "sebelumnya|di atas|semua|terdahulu|seluruh|segala",
    "vi": "trước|ở trên|phía trên|mọi|tất cả|bên trên",
    "th": "ก่อนหน้า|ข้างต้น|ทั้งหมด|ด้านบน|ทุก|เดิม",
}

_ORDERS: Final = {
    "en": "instruction|instructions|prompt|prompts|directions|guideline|guidelines|rule|rules|commands|constraints"
    "|restrictions|programming|directives|safeguards|guardrails|you were told|you have been told|you were given"
    "|you have been given|told you|context|conversation|your brief|earlier brief|what it was told|it was told",
    "de": "anweisung*|instruktion*|vorgabe*|regel|regeln|befehl*|richtlinien|prompt*|weisungen|einschränkungen"
    "|gesagt wurde|vorgaben|instruktionen|aufgetragen wurde",
    "fr": "consigne|consignes|règles|directives|ordres|invite|indications|qui précède|t a été dit|vous a été dit",
    "es": "instrucciones|instrucción|indicaciones|reglas|órdenes|directrices|directivas|te dijeron|se te ha dicho",
    "it": "istruzioni|istruzione|regole|indicazioni|direttive|ordini|comandi|linee guida|ti è stato detto",
    "pt": "instruções|instrução|regras|orientações|orientação|diretrizes|ordens|comandos",
    "nl": "instructies|regels|aanwijzingen|richtlijnen|opdrachten|opgedragen|gezegd is",
    "pl": "instrukcje|instrukcji|instrukcjach|zasad|zasady|zasadach|polecenia|poleceń|wytyczne|reguły|regułach",
    "ru": "инструкц*|указани*|правил*|команд*|предписани*|промпт*|установк*",
    "tr": "talimat*|kural*|yönerge*|komut*|emir*",
    "ar": "التعليمات|بالتعليمات|تعليمات|تعليماتك|بالقواعد|القواعد|قواعد|الأوامر|أوامر|الإرشادات|توجيهات|التوجيهات",
    "hi": "निर्देश|नियम|आदेश|हिदायत",
    "zh": "指令|指示|规则|規則|提示|命令|要求|约束|設定|设定",
    "ja": "指示|命令|ルール|規則|プロンプト|設定|制約",
    "ko": "지시|명령|규칙|지침|프롬프트",
    "id": "instruksi|aturan|perintah|petunjuk|arahan|peraturan|panduan",
    "vi": "chỉ dẫn|hướng dẫn|quy tắc|lệnh|chỉ thị",
    "th": "คำสั่ง|กฎ|คำแนะนำ|ข้อกำหนด",
}

_REVEAL: Final = {
    "en": "reveal|print|output|show|display|repeat|leak|disclose|write out|expose|tell me|recite|dump|give me|copy"
    "|quote|write all|write down|write it",
    "de": "gib|zeige|zeig|nenne|wiederhole|verrate|drucke|offenbare|geben sie|zeigen sie|wiederholen sie|nennen sie",
    "fr": "affiche|affichez|montre|montrez|révèle|révélez|répète|répétez|donne|donnez|imprime|écris|recopie",
    "es": "muestra|muestre|revela|revele|repite|imprime|escribe|enseña|dime",
    "it": "mostra|rivela|ripeti|stampa|scrivi|svela|dimmi",
    "pt": "mostre|revele|repita|imprima|exiba|escreva",
    "nl": "toon|onthul|herhaal|geef",
    "pl": "pokaż|ujawnij|powtórz|wypisz|wyświetl",
    "ru": "покажи*|раскрой*|выведи*|повтори*|напиши*|распечатай*",
    "tr": "göster*|ortaya çıkar*|yazdır*|tekrarla*",
    "ar": "اعرض|اكشف|اطبع|كرر|اظهر",
    "hi": "दिखाओ|बताओ|दोहराओ|प्रकट|दिखाएं",
    "zh": "输出|輸出|显示|顯示|告诉我|重复|打印|透露|泄露|列出|公开|复述",
    "ja": "出力|表示|見せて|教えて|繰り返|開示|公開",
    "ko": "출력|보여|공개|알려|반복|표시",
    "id": "tampilkan|tunjukkan|ungkapkan|cetak|ulangi|dedahkan|paparkan",
    "vi": "hiển thị|tiết lộ|in ra|lặp lại|cho xem|đưa ra",
    "th": "แสดง|เปิดเผย|พิมพ์",
}

_PROMPT: Final = {
    "en": "system prompt|system prompts|hidden prompt|initial prompt|secret prompt|your prompt|your system message"
    "|your system instructions|hidden instructions|your initial instructions|developer message|your hidden rules"
    "|your context window|setup text|start of this conversation|beginning of this conversation"
    "|start of our conversation",
    "de": "system prompt*|systemprompt*|systemanweisung*|deine systemnachricht",
    "fr": "invite système|prompt système|instructions système|invite du système|message système",
    "es": "prompt del sistema|mensaje del sistema|instrucciones del sistema|indicaciones del sistema|prompt de sistema",
    "it": "prompt di sistema|messaggio di sistema|istruzioni di sistema",
    "pt": "prompt do sistema|prompt de sistema|mensagem do sistema|instruções do sistema",
    "nl": "systeemprompt|systeemopdracht|systeeminstructies",
    "pl": "prompt systemowy|instrukcje systemowe|monit systemowy",
    "ru": "системный промпт|системные инструкции|системного промпта|системное сообщение|системную подсказку",
    "tr": "sistem istemi*|sistem komut*|sistem prompt*|sistem talimat*",
    "ar": "موجه النظام|تعليمات النظام|رسالة النظام|مطالبة النظام",
    "hi": "सिस्टम प्रॉम्प्ट|सिस्टम निर्देश|सिस्टम संदेश",
    "zh": "系统提示|系統提示|系统指令|系統指令|系统消息|隐藏提示|初始提示",
    "ja": "システムプロンプト|システムメッセージ|隠しプロンプト|内部指示",
    "ko": "시스템 프롬프트|시스템 메시지|시스템 지시|숨겨진 지시",
    "id": "prompt sistem|perintah sistem|instruksi sistem|arahan sistem",
    "vi": "lời nhắc hệ thống|prompt hệ thống|chỉ dẫn hệ thống|câu lệnh hệ thống",
    "th": "พรอมต์ระบบ|ข้อความระบบ|คำสั่งระบบ|พรอมป์ระบบ",
}

_BECOME: Final = {
    "en": "you are now|you re now|you are no longer|you will now be|from now on you are|you have become",
    "de": "du bist jetzt|du bist nun|sie sind jetzt|du bist ab jetzt|du bist ab sofort|du bist nicht mehr"
    "|ab sofort bist du|ab jetzt bist du|von nun an bist du",
    "fr": "tu es désormais|tu es maintenant|vous êtes désormais|vous êtes maintenant|tu n es plus"
    "|à partir de maintenant tu es|dorénavant tu es",
    "es": "ahora eres|a partir de ahora eres|desde ahora eres|ya no eres|ahora usted es",
    "it": "ora sei|adesso sei|d ora in poi sei|non sei più",
    "pt": "agora você é|você agora é|a partir de agora você é|agora és|você não é mais",
    "nl": "je bent nu|u bent nu|vanaf nu ben je",
    "pl": "jesteś teraz|teraz jesteś|od teraz jesteś|nie jesteś już",
    "ru": "теперь ты|ты теперь|отныне ты|с этого момента ты|ты больше не",
    "tr": "artık sen|artık bir|artık|bundan sonra sen|şimdi sen",
    "ar": "أنت الآن|من الآن أنت|ستكون الآن",
    "hi": "अब तुम|अब आप|तुम अब|आप अब",
    "zh": "你现在是|你現在是|从现在起你是|从现在开始你是|你不再是|现在你是|你将扮演|請扮演|请扮演|假装你是|假裝你是",
    "ja": "あなたは今から|あなたは今|今からあなたは|これからあなたは|あなたはもう",
    "ko": "이제부터 너는|너는 이제|당신은 이제|이제 당신은|지금부터 너는|지금부터 당신은|이제 너는|이제부터 당신은",
    "id": "sekarang kamu adalah|kamu sekarang adalah|anda sekarang|sekarang anda|mulai sekarang kamu"
    "|mulai sekarang anda|awak sekarang",
    "vi": "bây giờ bạn là|từ giờ bạn là|bạn bây giờ là|giờ đây bạn là|từ bây giờ bạn là",
    "th": "ตอนนี้คุณคือ|ต่อไปนี้คุณคือ|ตอนนี้คุณเป็น",
}

_MODEL: Final = {
    "en": "assistant|chatbot|language model|ai|a i|llm|gpt|dan|unrestricted|uncensored|unfiltered|jailbroken"
    "|without restrictions|without limits|no restrictions|in developer mode|bound by|without any filter"
    "|without filters|unlimited bot",
    "de": "assistent|ki|sprachmodell|chatbot|ohne einschränkung*|ohne beschränkung*|unzensiert*|ohne regeln"
    "|ohne filter|bot|roboter",
    "fr": "assistant|modèle de langage|ia|sans aucune limite|sans restriction*|sans limites|non censuré|robot"
    "|sans filtre|sans règles",
    "es": "asistente|modelo de lenguaje|ia|sin restricciones|sin límites|sin censura|sin filtros|sin reglas",
    "it": "assistente|modello linguistico|ia|senza vincoli|senza restrizioni|senza limiti|senza censura"
    "|senza filtri|senza regole|modello senza",
    "pt": "assistente|modelo de linguagem|sem restrições|sem limites|sem censura|sem filtros|sem regras|robô",
    "nl": "taalmodel|zonder beperkingen|zonder grenzen|zonder filters|zonder regels|chatbot",
    "pl": "asystent*|model językowy|modelem|bez ograniczeń|sztuczną inteligencją",
    "ru": "помощник|ассистент|языковая модель|модель без|без ограничений",
    "tr": "asistan*|dil modeli*|yapay zeka*|kısıtlaması olmayan|sınırsız|sansürsüz",
    "ar": "مساعد|نموذج لغوي|بلا قيود|دون قيود|بدون قيود|ذكاء اصطناعي",
    "hi": "सहायक|भाषा मॉडल|बिना किसी सीमा|बिना प्रतिबंध",
    "zh": "助手|模型|没有任何限制|沒有任何限制|不受限制|无限制|人工智能|机器人",
    "ja": "アシスタント|モデル|制限のない|制限なし|無制限|チャットボット",
    "ko": "어시스턴트|모델|비서|제한 없는|제한이 없는|인공지능|챗봇",
    "id": "asisten|pembantu|model bahasa|tanpa batasan|tanpa had|tanpa sekatan",
    "vi": "trợ lý|mô hình|không có giới hạn|không giới hạn|không bị hạn chế",
    "th": "ผู้ช่วย|โมเดล|ไม่มีข้อจำกัด|แบบจำลอง",
}

_ADDRESS: Final = {
    "en": "note to the ai|note to ai|note to any ai|note to the model|note to llm|note to llms|message to the ai"
    "|message for the ai|instructions for the ai|instructions to the ai|attention ai|attention all ai"
    "|attention language model*|dear ai|dear language model|hello ai|hey ai|if you are an ai"
    "|if you are a language model|if you are a large language model|if you are an llm|if you re an ai"
    "|if you are a chatbot|ai reading this|ai assistants reading this|ai assistant reading this|llm reading this"
    "|model reading this|ai agents reading|to the ai reading|any ai reading|ai instructions|llm instructions"
    "|to all language models|for the ai assistant|for ai assistants|to the ai assistant|hey chatbot|hello chatbot"
    "|dear chatbot|dear assistant|llm when|as an ai you|as a language model you|as an ai model you"
    "|as an ai assistant you",
    "de": "hinweis an die ki|hinweis für die ki|nachricht an die ki|anweisung an die ki|notiz an die ki|liebe ki"
    "|achtung ki|wenn du ein sprachmodell bist|falls du ein sprachmodell bist|wenn du eine ki bist"
    "|falls du eine ki bist|wenn sie ein sprachmodell sind|falls sie ein sprachmodell sind|ki assistenten die dies"
    "|sprachmodelle die dies|wenn sie eine ki sind|an alle sprachmodelle|als ki musst du|als ki sollst du",
    "fr": "note à l ia|note pour l ia|message à l ia|message pour l ia|si tu es un modèle de langage"
    "|si tu es une ia|si vous êtes un modèle de langage|si vous êtes une ia"
    "|si tu es une intelligence artificielle|si vous êtes une intelligence artificielle|en tant qu ia tu|chère ia"
    "|à l attention de l ia|instructions pour l ia|consigne pour l ia",
    "es": "nota para la ia|nota a la ia|mensaje para la ia|si eres un modelo de lenguaje|si eres una ia"
    "|si eres una inteligencia artificial|como ia debes|instrucciones para la ia|atención ia|querida ia",
    "it": "nota per l ia|nota all ia|messaggio per l ia|se sei un modello linguistico|se sei un ia|se sei una ia"
    "|se sei un intelligenza artificiale|come ia devi|istruzioni per l ia|attenzione ia|cara ia",
    "pt": "nota para a ia|nota à ia|mensagem para a ia|se você é um modelo de linguagem"
    "|se você for um modelo de linguagem|se você é uma ia|se você for uma ia"
    "|se você é uma inteligência artificial|como ia você deve|instruções para a ia",
    "nl": "als je een taalmodel bent|als je een ai bent|bericht aan de ai|opmerking voor de ai|instructie voor de ai",
    "pl": "jeśli jesteś modelem językowym|jeśli jesteś sztuczną inteligencją|uwaga dla ai|wiadomość dla ai"
    "|instrukcja dla ai",
    "ru": "если ты языковая модель|если вы языковая модель"
    "|если ты ии|если вы ии|сообщение для ии|инструкция для ии"
    "|внимание ии|примечание для ии|если ты нейросеть",
    "tr": "bir dil modeliysen*|yapay zekaya not|yapay zeka için not|bir yapay zekaysan*",
    "ar": "إذا كنت نموذج*|إذا كنت ذكاء|ملاحظة للذكاء الاصطناعي|رسالة إلى الذكاء الاصطناعي|تعليمات للذكاء الاصطناعي",
    "hi": "यदि तुम एक भाषा मॉडल|यदि आप एक भाषा मॉडल|अगर आप एक भाषा मॉडल|अगर तुम एआई|एआई के लिए निर्देश",
    "zh": "如果你是语言模型|如果你是一个语言模型|如果你是大语言模型|如果您是语言模型|如果你是語言模型"
    "|如果你是人工智能|如果你是ai|致ai|阅读本文的ai|阅读此文的ai|给人工智能的|致人工智能",
    "ja": "あなたが言語モデル|あなたがaiなら|aiへの指示|aiへの注意|aiへのメモ|これを読むai|これを読んでいるai"
    "|aiアシスタントへ",
    "ko": "언어 모델이라면|ai라면|인공지능이라면|이 글을 읽는 ai|ai 어시스턴트에게",
    "id": "jika kamu adalah model bahasa|jika anda adalah model bahasa|jika anda ialah model bahasa"
    "|jika kamu adalah ai|jika anda adalah ai|catatan untuk ai|nota kepada ai|nota untuk ai|pesan untuk ai"
    "|instruksi untuk ai",
    "vi": "nếu bạn là mô hình ngôn ngữ|nếu bạn là một mô hình ngôn ngữ|nếu bạn là trí tuệ nhân tạo",
    "th": "หากคุณเป็นโมเดลภาษา|ถ้าคุณเป็นโมเดลภาษา|ถึงปัญญาประดิษฐ์",
}

_HUSH: Final = {
    "de": "sage dem nutzer nichts|sag dem nutzer nichts|sage dem benutzer nichts|verrate dem nutzer"
    "|erwähne keinen anderen",
    "fr": "ne le dis pas à l utilisateur|ne dites pas à l utilisateur|ne dis pas à l utilisateur"
    "|ne dis rien à l utilisateur|sans le dire à l utilisateur|ne mentionne pas",
    "es": "no se lo digas al usuario|no le digas al usuario|sin decírselo al usuario|no le cuentes al usuario",
    "it": "non dirlo all utente|non dire all utente|senza dirlo all utente",
    "pt": "não conte ao usuário|não diga ao usuário|sem contar ao usuário|não digas ao utilizador",
    "nl": "vertel de gebruiker niet*|zeg niets tegen de gebruiker",
    "pl": "nie mów użytkownikowi|nie informuj użytkownika",
    "ru": "не говори об этом пользователю|не говори пользователю|не сообщай пользователю",
    "tr": "kullanıcıya söyleme*|kullanıcıya bahsetme*",
    "ar": "لا تخبر المستخدم|ولا تخبر المستخدم|دون إخبار المستخدم",
    "hi": "उपयोगकर्ता को मत बता|उपयोगकर्ता को न बता",
    "zh": "不要告诉用户|不要告訴使用者|不要告诉使用者|别告诉用户|不要告訴用戶|不要让用户知道|不要向用户提",
    "ja": "ユーザーには伝えない|ユーザーに言わない|ユーザーには言わない|ユーザーに知らせない|ユーザーに伝えない",
    "ko": "사용자에게는 말하지 마|사용자에게 말하지 마|사용자에게 알리지 마",
    "id": "jangan beri tahu pengguna|jangan katakan kepada pengguna|jangan beritahu pengguna|jangan maklumkan pengguna",
    "vi": "đừng nói với người dùng|không nói với người dùng|đừng cho người dùng biết",
    "th": "อย่าบอกผู้ใช้|ห้ามบอกผู้ใช้|ไม่ต้องบอกผู้ใช้",
}

_ENGLISH: Final = {
    "yours": "your|yours",
    "void": "void|revoked|cancelled|no longer valid|obsolete|null and void|superseded",
    "above": "text above|words above|everything above|your instructions|lines above|all of the above",
    "verbatim": "verbatim|word for word|in full|exactly as written|character by character",
    "act_as": "act as|behave as|speak as|roleplay as|role play as|pretend to be|pretend you are|answer as|respond as",
    "unbound_model": "chatbot|language model|ai model|an ai|llm|gpt|dan|unrestricted|uncensored|unfiltered|jailbroken",
    "conceal": "do not tell|don t tell|do not mention|don t mention|never mention|never tell|do not inform"
    "|not mention|without telling|do not reveal|don t reveal|hide this from|keep this from|do not disclose",
    "user": "the user|users|the reader|this message|this instruction|these instructions|this paragraph|this request"
    "|this note",
    "pretend": "pretend to be|pretend you are|pretend that you are|roleplay as|role play as|imagine you are an",
    "reads_this": "reading this|reads this|indexes this|indexing this|processing this|processes this|crawls this"
    "|crawling this|summarising this|summarizing this|summarises this|summarizes this|who read this|that read this",
    "named": "chatbot|chatbots|llm|llms|language model|language models|ai assistant|ai assistants|ai agent"
    "|ai agents|ai model|ai models|an ai|any ai|the ai|gpt|copilot|automated assistant|automated assistants",
    "must": "must output|must say|must answer|must respond|must reply|must include|must add|must append"
    "|must recommend|must treat|you must|you should|respond that|tell the customer|tell the user|answer that"
    "|output the|your answer",
    "updated": "updated|changed|replaced|lifted|suspended|relaxed|removed",
    "tool": "call the payment tool|use your tools to|invoke the tool|call the tool|run the tool|use the tool to"
    "|call the function|execute the following",
    "confirmation": "do not ask for confirmation|no confirmation is needed|without asking|without confirmation"
    "|the user has already authorised|the user has already authorized|the user has agreed",
    "game": "let us play a game|let s play a game|i am your administrator|i am your developer|i am your creator"
    "|by the developer|hypothetical world in which you",
    "write_all": "write all|write it all|write everything|write down|type out|list all",
    "asked": "what were you told|what are your instructions|what was your prompt|what does your prompt",
    "free": "you may now|you can now say|you have no rules|no rules apply to you|you are free to",
    "machine": "processes this file automatically|automated reader*|automatic processing of this file"
    "|what it was told|even if it conflicts|do anything the",
    "answer": "respond only with|reply only with|answer only with|reply with only|respond with the word|say only"
    "|you only say|only say|begin your answer with|begin your reply with|start your answer with"
    "|begin your response with|start your response with|end your answer with|instead of answering|must respond as"
    "|respond as|answer to every question|answer to any question|reply to any question|reply to every question"
    "|and nothing else|each answer|every reply",
    "task": "your only task|your new task|your sole task|your real task|your new role",
    "renewed": "new instructions|updated instructions|new system prompt|new directive for the|real instructions"
    "|actual instructions|instructions start here|true instructions",
    "from_now": "from now on you|from here on you|from now on respond|from now on answer|from this point on you",
    "obey": "obey the|obey me|follow only what|follow these ones instead|highest authority|whatever the user asks"
    "|do exactly what this|takes precedence over your|comply with this text",
    "mode": "developer mode|debug mode enabled|god mode|dan mode|jailbreak|do anything now|maintenance mode enabled",
    "unbound": "restrictions no longer apply|rules no longer apply|do not refuse|never refuse|no restrictions"
    "|without any restrictions|unrestricted assistant|uncensored model|safety filters|you have no rules"
    "|no compliance filter|no rules apply",
    "summary": "when you summari*|when summari*|when you answer|in your summary|in your answer you must",
}


def _phrases() -> dict[str, tuple[str, ...]]:
    by_language = {
        "ignore": _IGNORE,
        "earlier": _EARLIER,
        "orders": _ORDERS,
        "reveal": _REVEAL,
        "prompt": _PROMPT,
        "become": _BECOME,
        "model": _MODEL,
        "address": _ADDRESS,
        "hush": _HUSH,
    }
    joined = {name: "|".join(phrases.values()) for name, phrases in by_language.items()} | _ENGLISH
    return {name: tuple(dict.fromkeys(phrases.split("|"))) for name, phrases in joined.items()}


PHRASES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(_phrases())
"""The phrases of each class, in all languages."""
