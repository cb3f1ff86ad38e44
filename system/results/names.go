package results

// Names of invented people. Popular names stand first, see random.popular.

// femaleNames and maleNames are given names of young people.
var femaleNames = []string{
	"Hanna", "Meron", "Selam", "Bethlehem", "Tigist", "Hiwot", "Mahlet", "Rahel", "Sara", "Eden",
	"Aster", "Almaz", "Chaltu", "Fatuma", "Zahra", "Meseret", "Birtukan", "Genet", "Kidist", "Lidya",
	"Marta", "Mihret", "Nardos", "Netsanet", "Rediet", "Ruth", "Saba", "Senait", "Soliana", "Tsion",
	"Yordanos", "Zinash", "Abeba", "Abinet", "Aberash", "Adanech", "Alem", "Amina", "Aynalem",
	"Ayantu", "Bontu", "Bilen", "Bezawit", "Debritu", "Derartu", "Elsabet", "Emebet", "Etenesh",
	"Feven", "Firehiwot", "Gadise", "Haimanot", "Hawi", "Helen", "Hewan", "Hirut", "Iftu", "Kalkidan",
	"Konjit", "Lemlem", "Letay", "Lensa", "Liya", "Mekdes", "Melat", "Mestawet", "Mulu", "Muna",
	"Nigist", "Rihana", "Roman", "Samrawit", "Semira", "Sifan", "Simret", "Sosina", "Tizita",
	"Tirunesh", "Tsehay", "Wubit", "Yeshi", "Yodit", "Zebiba", "Zemzem", "Zewditu",
}

var maleNames = []string{
	"Abel", "Yonas", "Dawit", "Samuel", "Abdi", "Nahom", "Mohammed", "Henok", "Bereket", "Natnael",
	"Yared", "Kaleb", "Biruk", "Eyob", "Ermias", "Fasil", "Getu", "Hailu", "Ibrahim", "Jemal",
	"Kirubel", "Leul", "Mikias", "Nathan", "Obsa", "Robel", "Surafel", "Tewodros", "Yohannes",
	"Zelalem", "Abraham", "Addisu", "Ahmed", "Amanuel", "Anteneh", "Ashenafi", "Bekele", "Binyam",
	"Bonsa", "Chala", "Daniel", "Desta", "Dereje", "Elias", "Ephrem", "Fikadu", "Firaol", "Gadisa",
	"Gemechu", "Girma", "Habtamu", "Hamza", "Iyasu", "Jalata", "Kalid", "Lemi", "Mathewos", "Melaku",
	"Mesfin", "Mulugeta", "Naol", "Petros", "Sami", "Sisay", "Solomon", "Tadele", "Tariku",
	"Temesgen", "Tesfaye", "Tolosa", "Wondimu", "Yasin", "Yidnekachew", "Yosef", "Zerihun",
	"Abenezer", "Dagim", "Fuad", "Gelan", "Kidus",
}

// elderNames are the names of fathers and grandfathers, an older fashion.
var elderNames = []string{
	"Tesfaye", "Kebede", "Bekele", "Abebe", "Girma", "Mohammed", "Hailu", "Tadesse", "Alemu",
	"Mekonnen", "Assefa", "Worku", "Ahmed", "Getachew", "Desta", "Negash", "Tilahun", "Demissie",
	"Lemma", "Ali", "Haile", "Gebre", "Wolde", "Mulugeta", "Ayele", "Shiferaw", "Teshome", "Regassa",
	"Dinku", "Bogale", "Hussein", "Abdi", "Adem", "Admasu", "Asfaw", "Berhanu", "Beyene", "Chernet",
	"Dagne", "Debebe", "Degu", "Endale", "Ergete", "Fekadu", "Feyissa", "Gebreyesus", "Gemeda",
	"Getahun", "Gizaw", "Hagos", "Hassan", "Ibrahim", "Jibril", "Kassa", "Kidane", "Kumsa", "Legesse",
	"Mamo", "Megersa", "Mengistu", "Moges", "Nigatu", "Omar", "Oljira", "Sahle", "Seid", "Sileshi",
	"Sime", "Tafesse", "Taye", "Tekle", "Tola", "Tsegaye", "Tulu", "Umer", "Wakjira", "Woldemariam",
	"Yilma", "Yimer", "Zewde", "Gudina", "Kibret",
}
