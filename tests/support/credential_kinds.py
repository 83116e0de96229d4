"""Kinds of credentials, and texts that hold one of each in all notations that fit.

A value is described by its fixed part and by the length of its random parts, and is made when a test runs: no
file of the repository holds anything that looks like a credential. ``{a20}`` stands for 20 letters and digits,
``{h20}`` for hexadecimal digits, ``{b20}`` for base64, ``{u20}`` for capital letters and digits, ``{l20}`` for
small letters and digits, ``{d20}`` for digits, ``{w12}`` for a password, ``{id}`` for a UUID.
"""

# ruff: noqa: E501 - a kind is a line
import base64
import random
import re
import string
from collections.abc import Iterator
from typing import NamedTuple

# kind | name of the value | value
NAMED = """
PostgreSQL password | PGPASSWORD | {w12}
MySQL password | MYSQL_PWD | {w12}
MySQL root password | MYSQL_ROOT_PASSWORD | {w14}
Redis password | REDISCLI_AUTH | {a24}
MongoDB password | MONGO_INITDB_ROOT_PASSWORD | {w12}
RabbitMQ password | RABBITMQ_DEFAULT_PASS | {w12}
database password | DB_PASSWORD | {w10}
SSH password | SSHPASS | {w12}
SMTP password | smtp_password | {w12}
LDAP bind password | ldapBindPassword | {w12}
Ansible password | ansible_become_pass | {w12}
keystore password | javax.net.ssl.keyStorePassword | {w12}
VNC password | vnc_passwd | {w8}
passphrase of a key | KEY_PASSPHRASE | {w20}
passcode | passcode | {w8}
short option | pass | {w12}
password in German | passwort | {w12}
password in French | mot_de_passe | {w12}
password in Spanish | contraseña | {w12}
password of a database, short | DBPW | {a14}
password of an option | sftp_pass | {a14}
numeric password | password | {d8}
client secret | CLIENT_SECRET | {a32}
Django secret key | SECRET_KEY | {a50}
Rails secret key | SECRET_KEY_BASE | {h128}
Laravel key | APP_KEY | base64:{b43}=
AWS secret key | AWS_SECRET_ACCESS_KEY | {b40}
AWS secret key in a configuration | aws_secret_access_key | {b40}
AWS secret key in JSON of the STS | SecretAccessKey | {b40}
AWS session token | AWS_SESSION_TOKEN | {b200}
AWS access key ID | AWS_ACCESS_KEY_ID | AKIA{u16}
AWS temporary key ID | access_key_id | ASIA{u16}
AWS Bedrock key | AWS_BEARER_TOKEN_BEDROCK | ABSK{a110}
signature of AWS | X-Amz-Signature | {h64}
Google API key | GOOGLE_API_KEY | AIza{a35}
Google OAuth token | access_token | ya29.{a60}
Google refresh token | refresh_token | 1//0{a60}
Google client secret | client_secret | GOCSPX-{a28}
key ID of a Google service account | private_key_id | {h40}
Azure storage key | AccountKey | {b86}==
Azure shared access key | SharedAccessKey | {b43}=
signature of an Azure SAS | sig | {a20}%2B{a21}%3D
Azure client secret | AZURE_CLIENT_SECRET | {a3}8Q~{a34}
Azure DevOps token | AZURE_DEVOPS_EXT_PAT | {l52}
Azure subscription key | Ocp-Apim-Subscription-Key | {h32}
Azure functions key | x-functions-key | {a54}==
GitHub token | GITHUB_TOKEN | ghp_{a36}
GitHub OAuth token | GH_TOKEN | gho_{a36}
GitHub app token | GITHUB_APP_TOKEN | ghs_{a36}
GitHub fine-grained token | GITHUB_PAT | github_pat_{a22}_{a59}
GitLab token | GITLAB_TOKEN | glpat-{a20}
GitLab runner token | RUNNER_TOKEN | glrt-{a20}
GitLab deploy token | PRIVATE-TOKEN | gldt-{a20}
Bitbucket password | BITBUCKET_APP_PASSWORD | ATBB{a32}
Hugging Face token | HF_TOKEN | hf_{a34}
Hugging Face token of an organization | HUGGING_FACE_HUB_TOKEN | api_org_{a34}
Weights & Biases key | WANDB_API_KEY | {h40}
Kaggle key | KAGGLE_KEY | {h32}
NGC key | NGC_API_KEY | {a84}
NVIDIA key | NVIDIA_API_KEY | nvapi-{a64}
OpenAI key | OPENAI_API_KEY | sk-proj-{a48}
Anthropic key | ANTHROPIC_API_KEY | sk-ant-api03-{a93}AA
Groq key | GROQ_API_KEY | gsk_{a52}
Replicate token | REPLICATE_API_TOKEN | r8_{a37}
Cohere key | CO_API_KEY | {a40}
Mistral key | MISTRAL_API_KEY | {a32}
Perplexity key | PERPLEXITY_API_KEY | pplx-{a48}
xAI key | XAI_API_KEY | xai-{a80}
Together key | TOGETHER_API_KEY | tgp_v1_{a43}
Fireworks key | FIREWORKS_API_KEY | fw_{a24}
Cerebras key | CEREBRAS_API_KEY | csk-{l48}
Pinecone key | PINECONE_API_KEY | pcsk_{a70}
Jina key | JINA_API_KEY | jina_{a60}
RunPod key | RUNPOD_API_KEY | rpa_{a42}
LangSmith key | LANGSMITH_API_KEY | lsv2_pt_{h32}_{h10}
Databricks token | DATABRICKS_TOKEN | dapi{h32}
Snowflake password | SNOWFLAKE_PASSWORD | {w14}
Vault token | VAULT_TOKEN | hvs.{a90}
Vault token before 1.10 | vault_token | s.{a24}
Vault AppRole | secret_id | {id}
Consul token | CONSUL_HTTP_TOKEN | {id}
Terraform token | TFE_TOKEN | {a14}.atlasv1.{a67}
Docker token | DOCKER_TOKEN | dckr_pat_{a27}
registry password | REGISTRY_PASSWORD | {w16}
identity token | identitytoken | {a40}
npm token | NPM_TOKEN | npm_{a36}
npm configuration | _authToken | {id}
npm password | _auth | {basic}
PyPI token | TWINE_PASSWORD | pypi-AgEIcHlwaS5vcmc{a80}
NuGet key | NUGET_API_KEY | oy2{l43}
RubyGems key | GEM_HOST_API_KEY | rubygems_{h48}
crates.io token | CARGO_REGISTRY_TOKEN | cio{a32}
Artifactory key | ARTIFACTORY_API_KEY | AKCp{a69}
Slack bot token | SLACK_BOT_TOKEN | xoxb-{d12}-{d12}-{a24}
Slack user token | SLACK_TOKEN | xoxp-{d12}-{d12}-{d12}-{h32}
Slack app token | SLACK_APP_TOKEN | xapp-1-A{u10}-{d13}-{h64}
Discord bot token | DISCORD_TOKEN | MT{a24}.{a6}.{a38}
Telegram bot token | TELEGRAM_BOT_TOKEN | {d10}:AA{a33}
Twilio token | TWILIO_AUTH_TOKEN | {h32}
Twilio key | TWILIO_API_KEY | SK{h32}
SendGrid key | SENDGRID_API_KEY | SG.{a22}.{a43}
Mailgun key | MAILGUN_API_KEY | key-{h32}
Mailchimp key | MAILCHIMP_API_KEY | {h32}-us12
Brevo key | BREVO_API_KEY | xkeysib-{h64}-{a16}
Resend key | RESEND_API_KEY | re_{a8}_{a24}
Stripe key | STRIPE_SECRET_KEY | sk_live_{a40}
Stripe restricted key | STRIPE_API_KEY | rk_test_{a40}
Stripe webhook secret | STRIPE_WEBHOOK_SECRET | whsec_{a32}
Square token | SQUARE_ACCESS_TOKEN | EAAA{a60}
Shopify token | X-Shopify-Access-Token | shpat_{h32}
PayPal secret | PAYPAL_CLIENT_SECRET | E{a79}
Plaid secret | PLAID_SECRET | {h30}
Facebook token | FACEBOOK_ACCESS_TOKEN | EAAB{a120}
Twitter bearer token | TWITTER_BEARER_TOKEN | AAAAAAAAAAAAAAAAAAAAAA{a80}
DigitalOcean token | DIGITALOCEAN_ACCESS_TOKEN | dop_v1_{h64}
Heroku key | HEROKU_API_KEY | {id}
Cloudflare token | CLOUDFLARE_API_TOKEN | {a40}
Fastly token | FASTLY_API_TOKEN | {a32}
Netlify token | NETLIFY_AUTH_TOKEN | nfp_{a36}
Vercel token | VERCEL_TOKEN | {a24}
Fly.io token | FLY_API_TOKEN | fo1_{a43}
Linode token | LINODE_TOKEN | {h64}
Hetzner token | HCLOUD_TOKEN | {a64}
Alibaba key ID | ALIBABA_CLOUD_ACCESS_KEY_ID | LTAI{a20}
Alibaba secret | ALIBABA_CLOUD_ACCESS_KEY_SECRET | {a30}
Tencent secret ID | TENCENTCLOUD_SECRET_ID | AKID{a32}
Yandex key | YC_API_KEY | AQVN{a36}
Datadog key | DD_API_KEY | {h32}
Datadog application key | DD-APPLICATION-KEY | {h40}
New Relic key | NEW_RELIC_LICENSE_KEY | {h36}NRAL
New Relic user key | NEW_RELIC_API_KEY | NRAK-{u27}
Grafana token | GRAFANA_TOKEN | glsa_{a32}_{h8}
Grafana cloud token | GRAFANA_CLOUD_TOKEN | glc_{a80}
Sentry token | SENTRY_AUTH_TOKEN | sntryu_{h64}
Dynatrace token | DT_API_TOKEN | dt0c01.{u24}.{u64}
PagerDuty key | PAGERDUTY_API_KEY | u+{a18}
Splunk token | SPLUNK_HEC_TOKEN | {id}
PostHog key | POSTHOG_API_KEY | phx_{a43}
Sourcegraph token | SRC_ACCESS_TOKEN | sgp_{h16}_{h40}
SonarQube token | SONAR_TOKEN | squ_{h40}
Snyk token | SNYK_TOKEN | {id}
Codecov token | CODECOV_TOKEN | {id}
CircleCI token | CIRCLE_TOKEN | CCIPAT_{a22}_{h40}
Buildkite token | BUILDKITE_AGENT_TOKEN | bkua_{h40}
Travis token | TRAVIS_TOKEN | {a22}
Doppler token | DOPPLER_TOKEN | dp.pt.{a43}
Pulumi token | PULUMI_ACCESS_TOKEN | pul-{h40}
Prefect key | PREFECT_API_KEY | pnu_{a36}
PlanetScale password | PLANETSCALE_PASSWORD | pscale_pw_{a43}
Supabase key | SUPABASE_ACCESS_TOKEN | sbp_{h40}
Neon key | NEON_API_KEY | {a64}
Atlassian token | ATLASSIAN_API_TOKEN | ATATT3{a180}
Linear key | LINEAR_API_KEY | lin_api_{a40}
Notion token | NOTION_TOKEN | ntn_{a46}
Airtable token | AIRTABLE_TOKEN | pat{a14}.{h64}
Figma token | FIGMA_TOKEN | figd_{a40}
Postman key | POSTMAN_API_KEY | PMAK-{h24}-{h34}
Asana token | ASANA_TOKEN | 1/{d16}:{h32}
Dropbox token | DROPBOX_ACCESS_TOKEN | sl.{a130}
Box token | BOX_ACCESS_TOKEN | {a32}
Okta token | OKTA_API_TOKEN | 00{a40}
Auth0 secret | AUTH0_CLIENT_SECRET | {a64}
1Password token | OP_SERVICE_ACCOUNT_TOKEN | ops_eyJ{a250}
Tailscale key | TS_AUTHKEY | tskey-auth-{a17}-{a32}
WireGuard key | PrivateKey | {b43}=
WPA key | wpa_psk | {w14}
age key | AGE_KEY | AGE-SECRET-KEY-1{u58}
Ethereum key | ETH_PRIVATE_KEY | 0x{h64}
Nostr key | nsec | nsec1{l58}
JSON web token | JWT | eyJ{a30}.eyJ{a90}.{a43}
kubeadm token | token | {l6}.{l16}
token of a service account | token | eyJ{a40}.eyJ{a200}.{a86}
client key in a kubeconfig | client-key-data | LS0tLS1CRUdJTiB{a200}
OpenShift token | OC_TOKEN | sha256~{a43}
Jupyter token | JUPYTER_TOKEN | {h48}
session cookie | sessionid | {a32}
CSRF token | csrf_token | {a64}
license key | LICENSE_KEY | {u5}-{u5}-{u5}-{u5}
key of HMAC | HMAC_KEY | {h64}
encryption key | ENCRYPTION_KEY | {b43}=
deploy key | deploy_key | {a40}
credential | credential | {a24}
one-time password | TOTP_SECRET | {u32}
key of 40 digits | api_key | {h40}
key of 32 digits | x-api-key | {h32}
"""

# kind | text, in which what has to go stands between « and »
PLACED = """
netrc | machine ftp.magrathea.example login «arthur» password «{w12}»
netrc in lines | machine magrathea\\n  login «arthur»\\n  password «{w12}»\\n
netrc with a default | default login arthur password «{w12}»
netrc in JSON | "netrc": "machine magrathea\\\\nlogin «arthur»\\\\npassword «{w12}»"
Basic authorization | Authorization: Basic «{basic}»
Basic authorization by itself | send Basic «{basic}» to the proxy
Bearer authorization | curl -H "Authorization: Bearer «{a40}»" https://api.example.org/v1
Token authorization | {'Authorization': 'Token «{h40}»'}
authorization of another scheme | "authorization": "GenieKey «{id}»"
authorization without a scheme | Authorization: «{a40}»
Digest authorization | Authorization: Digest «username="arthur", nonce="{h32}", response="{h32}"»
proxy authorization | Proxy-Authorization: Basic «{basic}»
authorization of AWS | Authorization: AWS4-HMAC-SHA256 «Credential=AKIA{u16}/20260101/x/s3/aws4_request, Signature={h64}»
Bearer by itself | use bearer «{a32}» here
cookie | Cookie: «session={a32}; csrftoken={a32}»
Set-Cookie | set-cookie: «sid={h32}»; Path=/
option with a password | mysqldump --user root --password «{w12}» db
short option | train.py --pass «{w12}» --epochs 3
password of MySQL | mysql -u root -p«{w12}» -h db
password of MariaDB | mariadb-dump -u root -p«{w10}» db
password beside -p | train -p«{a6}A1b» --steps 3
sshpass | sshpass -p «{w12}» ssh node
sshpass, quoted | sshpass -p '«{w12}»' ssh node
docker login | docker login -u arthur -p «{w12}» registry
curl with a user | curl -u arthur:«{w12}» https://example.org
curl with a user, long | curl --user "arthur:«{w12}»" https://example.org
wget | wget --password=«{w12}» ftp://example.org
Redis client | redis-cli -h cache -a «{w12}» ping
MongoDB shell | mongosh --host db -u admin -p «{w12}» app
ldapsearch | ldapsearch -x -D cn=admin -w «{w12}» -b dc=x
zip | zip -P «{w12}» out.zip data
7z | 7z a -p«{w12}» out.7z data
OpenSSL | openssl enc -aes-256-cbc -pass pass:«{w12}» -in x
Samba | smbclient -U arthur%«{w12}» //server/share
Oracle | sqlplus scott/«{w10}»@orcl
sudo by a pipe | echo «{w12}» | sudo -S true
wandb login | wandb login «{h40}»
SQL | CREATE USER arthur IDENTIFIED BY '«{w12}'»
SQL of PostgreSQL | ALTER ROLE arthur WITH PASSWORD '«{w12}»'
pgpass | db.galaxy:5432:planets:arthur:«{w12}»
URL of a database | postgresql://arthur:«{w12}»@db:5432/planets
URL of Redis | redis://:«{w16}»@cache:6379/0
URL of MongoDB | mongodb+srv://arthur:«{a16}»@cluster0/db
URL with a token | git clone https://«ghp_{a36}»@github.com/x/y
URL with a token as password | https://x-access-token:«ghs_{a36}»@github.com/x/y
URL with a key | https://maps.example.org/api?key=«AIza{a35}»&x=1
URL with a signature | https://x.blob.example.org/c?sv=2024-01-01&sig=«{a20}%2F{a20}%3D»&se=2027
URL of a Sentry project | SENTRY_DSN=https://«{h32}»@o1.ingest.example.org/7
Slack webhook | https://hooks.slack.com/services/«T{u9}/B{u9}/{a24}»
Discord webhook | https://discord.com/api/webhooks/«{d18}/{a68}»
Teams webhook | https://x.webhook.office.com/webhookb2/«{id}@{id}/IncomingWebhook/{h32}/{id}»
connection string of Azure | DefaultEndpointsProtocol=https;AccountName=x;AccountKey=«{b86}==»;EndpointSuffix=y
connection string of SQL Server | Server=db;Database=x;User Id=sa;Password=«{w12}»;Encrypt=true
configuration of Docker | {"auths": {"registry": {"auth": "«{basic}»"}}}
RSA key | -----BEGIN RSA PRIVATE KEY-----\\n«{b64}\\n{b64}\\n{b40}»\\n-----END RSA PRIVATE KEY-----
EC key | -----BEGIN EC PRIVATE KEY-----\\n«{b64}\\n{b64}»\\n-----END EC PRIVATE KEY-----
PKCS 8 key | -----BEGIN PRIVATE KEY-----\\n«{b64}\\n{b64}»\\n-----END PRIVATE KEY-----
encrypted key | -----BEGIN ENCRYPTED PRIVATE KEY-----\\n«{b64}\\n{b64}»\\n-----END ENCRYPTED PRIVATE KEY-----
OpenSSH key | -----BEGIN OPENSSH PRIVATE KEY-----\\n«b3BlbnNzaC1rZXktdjE{b50}\\n{b64}»\\n-----END OPENSSH PRIVATE KEY-----
PGP key | -----BEGIN PGP PRIVATE KEY BLOCK-----\\n\\n«{b64}\\n{b64}\\n={b4}»\\n-----END PGP PRIVATE KEY BLOCK-----
key in JSON | {"private_key": "-----BEGIN PRIVATE KEY-----\\\\n«{b64}\\\\n{b64}»\\\\n-----END PRIVATE KEY-----\\\\n"}
key that is cut off | -----BEGIN RSA PRIVATE KEY-----\\n«{b64}\\n{b60}»
key in one line | -----BEGIN RSA PRIVATE KEY----- «{b64} {b64}» -----END RSA PRIVATE KEY-----
PuTTY key | Private-Lines: 2\\n«{b64}\\n{b40}»\\nPrivate-MAC: «{h64}»
JSON web key | {"kty": "RSA", "n": "abc", "d": "«{a86}»"}
variable of a container | {"name": "DB_PASSWORD", "value": "«{w12}»"}
variable of a container in YAML | - name: API_TOKEN\\n  value: "«{a30}»"
NuGet configuration | <add key="ClearTextPassword" value="«{w12}»" />
element of XML | <password>«{w12}»</password>
environment of Python | os.environ["HF_TOKEN"] = "«{a34}»"
call in Python | login(token="«{a34}»")
pair of Python | [("password", "«{w12}»"), ("port", 5432)]
setenv | setenv WANDB_KEY_SECRET «{a30}»
aws configure | aws configure set aws_secret_access_key «{b40}»
key pair of AWS | «AKIA{u16}:{b40}»
hash of a password | arthur:«$6${a8}${a86}»:19000
SSH user | ssh «arthur@magrathea» nvidia-smi
SSH user of a numbered host | on «arthur@node17»
prompt of a shell | [«arthur@magrathea» ~]$ train.py
target of scp | copy to «arthur@magrathea»:/data/x
host name | connect to «gpu-node-17.heart.galaxy.example»
lftp | lftp -u arthur,«{w12}» sftp://store
htpasswd | htpasswd -bc .htpasswd arthur «{w12}»
Kerberos by a pipe | echo «{w12}» | kinit arthur
Kerberos by a text | kinit arthur <<< «{w12}»
MinIO client | mc alias set store http://store:9000 «{u20} {b40}»
password in a sentence | the password is «{a14}»
password after a word | nmcli dev wifi connect magrathea password «{a16}»
hash of LDAP | hash {SSHA}«{b38}» of arthur
hashes of Windows | arthur:1001:«{h32}:{h32}»:::
bare key of AWS | use «{b40}» now
bare key of AWS, by itself | «{b40}»
encrypted JSON web token | «eyJ{a60}..{a16}.{a80}.{a22}»
PKCS 12 | p12=«MII{b300}»
key of MUNGE | MUNGE:«{b120}»
URL with an @ in its password | postgres://u:«{a6}@{a9}»@db/x
host name of a cloud | «ip-10-1-2-3.eu-west-1.compute.internal» is up
UUID of a GPU | GPU-«{id}» failed
UUID of a GPU without hyphens | GPU-«{h32}» failed
UUID of a MIG device | MIG-«{id}»
"""

_ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
    "h": "0123456789abcdef",
    "l": string.ascii_lowercase + string.digits,
    "u": string.ascii_uppercase + string.digits,
    "w": string.ascii_letters + string.digits,
}
_PART = re.compile(r"\{(?:([abdhluw])(\d+)|(id|basic))\}")


class Planted(NamedTuple):
    """A text, and the parts of it that have to go. ``rest`` has to stay."""

    kind: str
    text: str
    secrets: tuple[str, ...]
    rest: str = ""


def made(form: str, chance: random.Random) -> str:
    """Return a value of this form."""

    def part(match: re.Match[str]) -> str:
        kind, length, named = match.groups()
        if named == "id":
            return "-".join(_random("h", n, chance) for n in (8, 4, 4, 4, 12))
        if named == "basic":
            return base64.b64encode(f"arthur:{_random('w', 14, chance)}".encode()).decode()
        return _random(kind, int(length), chance)

    return _PART.sub(part, form)


def _random(kind: str, length: int, chance: random.Random) -> str:
    """Return random characters; those of 8 or more have a digit and, where there are both, both letter cases."""
    while True:
        text = "".join(chance.choices(_ALPHABETS[kind], k=length))
        if kind == "d":
            text = f"{chance.randint(1, 9)}{text[1:]}"
        kinds = [any(map(test, text)) for test in (str.isdigit, str.islower, str.isupper)]
        wanted = [any(map(test, _ALPHABETS[kind])) for test in (str.isdigit, str.islower, str.isupper)]
        if length < 8 or kinds == wanted:
            return text + "!" * (kind == "w" and length > 12)


def rows_of(table: str, cells: int) -> list[list[str]]:
    """Return the cells of each line of a table."""
    return [[cell.strip() for cell in line.split(" | ", cells - 1)] for line in table.strip().splitlines()]


def _notations(name: str, value: str) -> Iterator[str]:
    """Yield a name with its value as programs, shells, files and URLs write it."""
    option = re.sub(r"[._]", "-", name).lower().strip("-")
    yield f"{name}={value}"
    yield f"run with {name}={value} now"
    yield f'{name}="{value}"'
    yield f"{name}='{value}'"
    yield f"export {name}={value}; ./run"
    yield f"env A=1 {name}={value} python train.py"
    yield f"{name} = {value}"
    yield f"{name}: {value}"
    yield f'{name}: "{value}"'
    yield f'{{"a": 1, "{name}": "{value}", "b": [2]}}'
    yield f"{{'{name}': '{value}'}}"
    yield f'"{{\\"{name}\\": \\"{value}\\"}}"'
    yield f"--{option} {value}"
    yield f"train.py --{option} {value} --epochs 3"
    yield f"--{option}={value}"
    yield f'--{option} "{value}" -x'
    yield f"--{option}='{value}'"
    yield f"https://magrathea/v1?page=2&{name}={value}&size=7"
    yield f"https://magrathea/v1?{name}={value}"
    yield f"A=1\0{name}={value}\0B=2"
    yield f"A=1;{name}={value};B=2"
    yield f"line\n{name}={value}\nother=1"
    yield f"-H '{name}: {value}'"


def planted(seed: int = 42) -> list[Planted]:
    """Return all kinds of credentials in all notations. Each text has values of its own."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    found = []
    for kind, name, form in rows_of(NAMED, 3):
        for i in range(len(list(_notations(name, "")))):
            value = made(form, chance)
            text = list(_notations(name, value))[i]
            found.append(Planted(kind, text, (value,), name if i < 4 else ""))
    for kind, form in rows_of(PLACED, 2):
        text = made(form.replace(r"\\", "\0").replace(r"\n", "\n").replace("\0", "\\"), chance)
        secrets = tuple(re.findall("«(.*?)»", text, re.DOTALL))
        found.append(Planted(kind, text.replace("«", "").replace("»", ""), secrets))
    return found
