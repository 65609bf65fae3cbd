"""Two tables: how hardening scripts hand over secrets, and what looks like it and must stay readable.

All secrets here are made up, and each holds the mark ``Zq`` so that none can be left over. Shaped by
``DB_PASS=…``, ``… | passwd root`` and ``chpasswd <<EOF``, which were sent in clear.
"""

from __future__ import annotations

import pytest

from scoring.judge.prompt import MAX_SCRIPT_CHARS
from scoring.judge.redact import redact, redact_within

SECRETS = [
    # variables and settings
    "DB_PASS=Zq1hunter2",
    "export SMTP_PASS='Zq1 S3cr3t!pw'",
    'ROOT_PASS="Zq1Winter"',
    "SSHPASS=Zq1Winter sshpass -e ssh h",
    "PASSWORD=Zq12345",
    "mysqlpass=Zq1Winter",
    "LDAP_BINDPW=Zq1Winter",
    "export RESTIC_PASSWORD=Zq1Winter",
    "AWS_SECRET_ACCESS_KEY=Zq1alrXUtnFEMI/K7MDENG",
    "API_TOKEN=Zq1abcdef123",
    'psk="Zq1wifi-secret"',
    "ansible_become_pass: Zq1Winter",
    "ansible-playbook s.yml -e 'ansible_password=Zq1Winter'",
    '{"password": "Zq1Winter"}',
    'curl -d "{\\"password\\":\\"Zq1Winter\\"}" https://h',
    "database:\n  password: Zq1Winter\n  host: db",
    "spring.datasource.password=Zq1Winter",
    "clientSecret: Zq1abc-Def",
    "PrivateKey = Zq1yAnz5TF+lXXJte14tjiGN=",
    "<password>Zq1Winter</password>",
    "Endpoint=sb://x/;SharedAccessKey=Zq1abcdef=",
    'password = "Zq1 with \\"quotes Zq2\\" inside"',
    # passwd, chpasswd and their kind
    'echo -e "Zq1New\\nZq1New" | passwd root',
    "printf '%s\\n%s\\n' 'Zq1New' 'Zq1New' | passwd root",
    "printf 'Zq1New\\nZq1New\\n' | sudo passwd root",
    '(echo "Zq1New"; sleep 1; echo "Zq1New") | passwd root',
    "{ echo Zq1New; echo Zq1New; } | passwd bob",
    "yes Zq1New | passwd bob",
    'passwd root <<< "Zq1New"',
    "passwd bob <<EOF\nZq1New\nZq1New\nEOF",
    "echo root:Zq12345 | chpasswd",
    "echo 'root:Zq1 with blanks' | sudo chpasswd -c SHA512",
    "chpasswd <<EOF\nroot:Zq1Sup\nbob:Zq2Sup\nEOF",
    "cat <<EOF | chpasswd\nroot:Zq1Sup\nEOF",
    "echo 'bob:Zq1Sup' > /tmp/p\nchpasswd < /tmp/p",
    "cat > /tmp/p <<E\nbob:Zq1Sup\nE\ncat /tmp/p | chpasswd",
    'bash -c "echo root:Zq1Sup | chpasswd"',
    "Run `echo root:Zq1Sup | chpasswd`; don't forget it's needed.",
    "usermod -p 'Zq1Sup' root",
    "useradd -m --password=Zq1Sup bob",
    "openssl passwd -6 'Zq1Sup'",
    "echo Zq1Sup | openssl passwd -6 -stdin",
    "echo -e 'Zq1Sup\\nZq1Sup' | grub2-mkpasswd-pbkdf2",
    "grub2-mkpasswd-pbkdf2 <<< $'Zq1Sup\\nZq1Sup'",
    "mkpasswd -m sha-512 Zq1Sup",
    "htpasswd -bB /etc/f bob Zq1Sup",
    "echo Zq1Sup | htpasswd -i /etc/f bob",
    "rootpw --plaintext Zq1Sup",
    "net user Administrator Zq1Sup",
    "smbpasswd -s -a bob <<< 'Zq1Sup'",
    # programs that log in
    "sudo -S id <<< 'Zq1Sup'",
    "ssh h 'echo Zq1Sup | sudo -S reboot'",
    "sshpass -pZq1Sup scp a h:/b",
    "kinit admin <<< 'Zq1Sup'",
    "echo Zq1Sup | kinit admin@EXAMPLE.COM",
    "echo 'Zq1Sup' | cryptsetup luksFormat /dev/sdb1 -",
    "aws configure set aws_secret_access_key Zq1alrXU",
    "aws configure set profile.x.aws_session_token Zq1alrXU",
    "docker login -u bob -p Zq1Sup registry",
    "echo 'Zq1Sup' | docker login -u bob --password-stdin registry",
    "podman login --password Zq1Sup registry",
    "helm registry login -p Zq1Sup h",
    "redis-cli -a Zq1Sup ping",
    "ldapsearch -x -D cn=admin -w Zq1Sup -b dc=x",
    "ldappasswd -x -s Zq1New -w Zq1Sup uid=bob",
    "smbclient //h/s -U bob%Zq1Sup",
    "mount -t cifs //h/s /mnt -o username=bob,password=Zq1Sup",
    "openssl pkcs12 -passin pass:Zq1Sup -in x",
    "openssl enc -aes-256-cbc -k Zq1Sup -in x",
    "mysqladmin -u root password 'Zq1new'",
    "mysql -u root -pZq1Sup db",
    "mysql -e \"SET PASSWORD FOR root@localhost = PASSWORD('Zq1Sup');\"",
    "psql -c \"ALTER ROLE app WITH PASSWORD 'Zq1Sup'\"",
    "PGPASSWORD='Zq1Sup' psql -h db",
    "mongosh -u root -p Zq1Sup",
    "sqlcmd -S h -U sa -P Zq1Sup",
    "curl -s -u 'admin:Zq1Sup' https://h",
    "curl --user admin:Zq1Sup https://h",
    "wget --user=bob --password=Zq1Sup https://h",
    "wget --http-password Zq1Sup https://h",
    "rabbitmqctl change_password guest Zq1Sup",
    "nmcli con modify wifi wifi-sec.psk Zq1Sup",
    "ipa-client-install -p admin -w Zq1Sup --unattended",
    "keytool -genkey -storepass Zq1Sup -alias x",
    "ipmitool -H h -U root -P Zq1Sup chassis status",
    "vault kv put secret/db password=Zq1Sup",
    "kubectl create secret generic s --from-literal=dbpw=Zq1Sup",
    "ansible-vault encrypt_string 'Zq1Sup'",
    "subscription-manager register --username u --password Zq1Sup",
    'expect -c \'expect "assword:"; send "Zq1Sup\\r"\'',
    # files
    'createUser snmpadm SHA "Zq1AuthPass" AES "Zq2PrivPass"',
    "echo 'createUser adm SHA Zq1AuthPass AES Zq2PrivPass' >> /var/lib/net-snmp/snmpd.conf",
    "rocommunity Zq1comm 10.0.0.0/8",
    "echo 'db:5432:app:bob:Zq1Sup' >> ~/.pgpass",
    "machine h\nlogin bob\npassword Zq1Sup",
    "cat > ~/.netrc <<E\nmachine h login bob password Zq1Sup\nE",
    ': PSK "Zq1Sup"',
    '{"auths": {"h": {"auth": "Zq1Yjpwdw=="}}}',
    "username admin privilege 15 secret 0 Zq1Sup",
    "git clone https://bot:Zq1Sup@git.example.org/r.git",
    "sqlplus system/Zq1Sup@orcl",
    "curl -H 'X-Auth-Key: Zq1abcdef12345' https://h",
    # options of programs that no table names
    "kubeadm join --token=Zq1abc h",
    "app --password='Zq1Sup'",
    "app --api-key=Zq1Sup --client-secret=Zq2Sup",
    "ipa-replica-install --admin-password=Zq1Sup",
    "app -password=Zq1Sup",
    "java -Djavax.net.ssl.keyStorePassword=Zq1Sup -Ddb.password=Zq2Sup",
    "P=${PASSWORD:-Zq1Sup}",
    'P="${DB_PASS:-Zq1 with blanks Zq2}"',
    ": ${API_TOKEN:='Zq1Sup'} ${CLIENT_SECRET-Zq2Sup}",
    # behind keywords, and out of loops and branches
    'for u in a; do echo "$u:Zq1Sup" | chpasswd; done',
    "for u in a; do echo Zq1Sup | passwd --stdin $u; done",
    "if x; then useradd -p Zq1Sup bob; elif y; then mysql -pZq2Sup; else ldapsearch -w Zq3Sup; fi",
    "while ! curl -u a:Zq1Sup h; do sleep 1; done",
    "until time sshpass -p Zq1Sup ssh h; do :; done",
    "if ! PW=x sshpass -p Zq1Sup ssh h; then exit 1; fi",
    'while read u; do echo "$u:Zq1Sup"; done < f | chpasswd',
    'for u in a b\ndo\n  echo "$u:Zq1Sup"\ndone | sudo chpasswd',
    "if a; then echo root:Zq1Sup; fi | chpasswd",
    "(case $x in a) echo root:Zq1Sup;; esac) | chpasswd",
    "while read l; do echo $l; done <<EOF | chpasswd\nroot:Zq1Sup\nEOF",
    "{ echo root:Zq1Sup; } > /tmp/p\nchpasswd < /tmp/p",
    "for u in a; do echo $u:Zq1Sup; done > /tmp/p; chpasswd < /tmp/p",
    # through printf, and through programs that hand their input on
    "printf 'root:%s\\n' 'Zq1Sup' | chpasswd",
    "printf 'a:%s\\nb:%s\\n' Zq1Sup 'Zq2:Zq3' | chpasswd",
    "printf -- '%s:%s\\n' bob Zq1Sup | chpasswd",
    "printf 'root:Zq1Sup%s' '' | chpasswd",
    "echo root:Zq1Sup | ssh h chpasswd",
    "echo root:Zq1Sup | ssh h 'sudo chpasswd -e'",
    "ssh h chpasswd <<< 'root:Zq1Sup'",
    "echo root:Zq1Sup | docker exec -i c chpasswd",
    "echo root:Zq1Sup | kubectl exec -i p -- /usr/sbin/chpasswd",
    "echo root:Zq1Sup | nsenter -t 1 chpasswd",
    "echo root:Zq1Sup | sudo -u x chpasswd",
    "echo 'root:Zq1 with blanks' | su -c chpasswd",
    "echo Zq1Sup | ssh h sudo -S reboot",
    "{ " + "echo a:Zq1Sup; " * 30 + "} | chpasswd",
]

READABLE = [
    "PASS_MAX_DAYS 60",
    "PASS_MIN_DAYS 1",
    "PASS_MIN_LEN=15",
    "PASS_WARN_AGE 7",
    "password = minlen=14",
    "minlen = 14",
    "retry_password = 3",
    "var_password_pam_minlen=15",
    'var_password_hashing_algorithm_pam="sha512"',
    "var_accounts_passwords_pam_faillock_deny=3",
    "password requisite pam_pwquality.so retry=3 minlen=14 dcredit=-1",
    "password    [success=1 default=ignore]  pam_unix.so obscure yescrypt",
    "password: requisite",
    "Password: must be at least 15 characters long",
    "passwd -l root",
    "passwd -d bob && passwd --status bob",
    "passwd -x 60 -n 1 bob",
    "echo 'PASS_MAX_DAYS 60' | tee -a /etc/login.defs",
    "chage --maxdays 60 root",
    "usermod -p '!' games",
    "usermod -p '*' games",
    "usermod -L -e 1 bob",
    "useradd -D -f 35",
    "sysctl -w kernel.dmesg_restrict=1",
    "kernel.yama.ptrace_scope = 1",
    "net.ipv4.conf.all.log_martians=1",
    "PasswordAuthentication no",
    "PermitEmptyPasswords no",
    "PermitRootLogin prohibit-password",
    "KbdInteractiveAuthentication=no",
    "PubkeyAuthentication yes",
    "auditctl -w /etc/passwd -p wa -k identity",
    "-w /etc/security/opasswd -p wa -k usergroup_modification",
    "echo '-a always,exit -F path=/usr/bin/passwd -F auid>=1000 -k passwd' >> /etc/audit/rules.d/x",
    "path=/etc/security/opasswd",
    "grep -q '^password' /etc/pam.d/system-auth || exit 1",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  /usr/bin/sudo",
    "sha256sum /etc/shadow | awk '{print $1}'",
    "root:x:0:0:root:/root:/bin/bash",
    "bin:*:18353:0:99999:7:::",
    "%wheel ALL=(ALL) NOPASSWD: ALL",
    "Defaults timestamp_timeout=0",
    'echo "$USER:$PW" | chpasswd',
    'echo "${u}:${p}" | chpasswd',
    'echo "$PW" | passwd --stdin root',
    'chpasswd < "$FILE"',
    'passwd root <<< "$NEW"',
    "DB_PASS=$(pass show db)",
    'ROOT_PASS="${1:?}"',
    "docker run -p 80:80 -e A=b nginx",
    "mkdir -p /etc/x; cp -p a b",
    "tar -p -xf x; ps -p 1",
    "echo hello | sudo tee /etc/motd",
    "echo 'SELECT 1' | su - postgres -c psql",
    "mysql -p db",
    'curl -u "$U:$P" https://h',
    "openssl passwd -6 -stdin",
    "openssl req -passout file:/etc/k -new",
    "ldapsearch -x -W -D cn=admin",
    "redis-cli -h h ping",
    "smbclient -U bob //h/s",
    'if [ "$password" = "" ]; then exit 1; fi',
    "PWD=/root",
    'cd "$OLDPWD"',
    "PASS=0; FAIL=0",
    'echo "PASS: the check passed"',
    "bypass=true",
    "compass=north",
    "password=getpass()",
    "authselect select sssd with-faillock without-nullok",
    "update-crypto-policies --set FIPS",
    "gpg --import key.asc",
    "ssh-keygen -t ed25519 -N '' -f /etc/k",
    "gpgkey=file:///etc/pki/k",
    "keyctl show; semanage login -l",
    "password_file: /etc/x.pw",
    "tokens = 3",
    "token_type = bearer",
    "find / -nouser -o -nogroup",
    "rootpw --lock",
    "user --name=bob --lock",
    'superusers="root"',
    "password=${PASSWORD:?}",
    "P=${PASSWORD:-$1} W=${PWD:-/root} D=${PASS_MAX_DAYS:-60} E=${TOKEN:-}",
    "app --password-file=/x --password=${PW} --pass-max-days=60 --token=TOKEN --password=prompt",
    "docker build --secret id=npm,src=x .",
    "X=$(echo 60) passwd -x 60 bob",
    "echo 'root:x' | ssh h 'tee -a /etc/passwd'",
    "echo 'a: b' | ssh h tee /etc/pam.d/chpasswd",
    "ssh h 'passwd -l root' <<< hello",
    "cat <<EOF | ssh h bash\npasswd -l root\nchage -M 60 root\nEOF",
    "echo 'minlen = 14' | docker exec -i c tee /etc/security/pwquality.conf",
    "echo root:plain | sudo -n tee x",
    "for f in a; do echo 'PASS_MAX_DAYS 60' >> /etc/login.defs; done",
    'while read -r l; do echo "$l" | sudo tee -a /etc/x; done < f',
    "if true; then printf 'minlen: %s\\n' 14; fi > /etc/x",
    "(echo minlen: 14)\nchpasswd < f",
    'printf \'%-10s:%s\\n\' "$u" "$p" | chpasswd',
]


def test_the_tables_are_long_enough() -> None:
    assert len(set(SECRETS)) == len(SECRETS) >= 60
    assert len(set(READABLE)) == len(READABLE) >= 40


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_taken_out_wherever_it_stands(text: str) -> None:
    for whole in (text, f"#!/bin/bash\nset -e\n{text}\necho done\n"):
        done = redact(whole)
        assert "Zq" not in done.text
        assert "[REDACTED:" in done.text
        assert redact(done.text) == type(done)(done.text, {})


@pytest.mark.parametrize("text", READABLE)
def test_what_the_judge_must_see_stays(text: str) -> None:
    for whole in (text, f"#!/bin/bash\nset -e\n{text}\necho done\n"):
        assert redact(whole).text == whole


def test_all_lines_together_are_as_clean_as_each_alone() -> None:
    text = "\n".join([*SECRETS, *READABLE])
    done = redact(text)
    assert "Zq" not in done.text
    for line in READABLE:
        assert line in done.text


def test_finds_that_overlap_leave_nothing_between_them() -> None:
    done = redact("password=postgres://app:Zq1Sup@db/x")
    assert "Zq1" not in done.text
    assert sum(done.kinds.values()) == 1


def test_a_text_over_the_limit_is_not_read_and_cannot_leave() -> None:
    text = "password=Zq1Sup\n" * 100
    held = redact_within(text, len(text) - 1)
    assert held.kinds == {}
    assert "Zq" not in held.text
    assert len(held.text) == len(text)
    assert redact_within(text, len(text)) == redact(text)


HOSTILE = [
    "password=abc{n}xyzq\n",
    "a",
    "a.-_",
    " -p ",
    "mysql ",
    "curl ",
    "curl -u ",
    "--a",
    "'\"",
    "' ",
    '" ',
    "\"a' ",
    "-----BEGIN PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\n!",
    "useradd ",
    "echo ",
    "echo a:",
    "echo a | ",
    "eyJaaaaaaaa-",
    "eyJaaaaaaaa.",
    "://:",
    "a://b",
    "a://b:",
    "cat <<E\n",
    "cat <<E{n}\n",
    "{",
    "{ ",
    "( ",
    "$(",
    "\\",
    "`",
    "|",
    "sk-",
    "gh",
    "x:1:y:z:",
    "login a password ",
    'send "a',
    "assword ",
    "{SSHA}",
    "$6$",
    "< ",
    "<<<",
    "password ",
    "password: ",
    "a=",
    'a="',
    "a='b' ",
    "identified by ",
    "username a ",
    "$ANSIBLE_VAULT;1\n",
    "aabbccddeeff0011\n",
    "openssl passwd -1 ",
    "rootpw ",
    "[REDACTED:password:1]",
    "bearer ",
    "authorization: ",
    "cookie: ",
    "chpasswd < a{n}\n",
    "echo a:b > a{n}\n",
    "bash -c 'a ",
    "\u00e9",
    "1234567890",
    "<password>",
    'PSK "',
    "\t",
    "sudo ",
    "ab://",
    "--password",
    "-D",
    "${PASSWORD:-",
    "${a:-b",
    "if ",
    "do ",
    "done ",
    "for a in b; do ",
    "case a in a) ",
    "a | chpasswd |",
    "(a) | chpasswd;",
    "done|chpasswd\n",
    "ssh passwd openssl ",
    "printf '%s:",
    "echo a:b; (",
]


@pytest.mark.timeout(60)  # a pattern that tries every way to read a text would not end at all
@pytest.mark.parametrize("piece", HOSTILE)
def test_the_longest_hostile_text_that_is_read_comes_to_an_end(piece: str) -> None:
    hostile = "".join(piece.replace("{n}", str(n)) for n in range(MAX_SCRIPT_CHARS // len(piece)))
    assert redact(redact(hostile).text).text == redact(hostile).text, "what is taken out stays out"
